"""`python -m tests.support.doomed_agent NAME CONFIG`: an agent that works until it meets a message, and dies of it.

It takes ten messages at a time and acks one after the other. Each is printed as a line of JSON before it is worked on.
At the one whose text is `DEADLY` it kills itself with SIGKILL. It ends when nothing comes for a while.
"""

import json
import os
import signal
import sys
from typing import Final

from multiclaw.client import SyncAgent

DEADLY: Final = "deadly"


_PATIENCE_SECONDS: Final = 3.0


def main(name: str, config: str) -> None:
    """Work."""
    with SyncAgent(name, config=config) as agent:
        while batch := agent.poll(wait=_PATIENCE_SECONDS):
            for message in batch:
                text = message.payload["text"]
                print(json.dumps([text, message.attempt]), flush=True)
                if text == DEADLY:
                    os.kill(os.getpid(), signal.SIGKILL)
                message.ack()


if __name__ == "__main__":
    main(*sys.argv[1:])
