"""`python -m sidecar --config PATH --agent NAME`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from shared.lifecycle import run
from sidecar.app import application


def main() -> int:
    """Run one sidecar until it is told to stop; 78 when its configuration or its key is at fault."""
    parser = argparse.ArgumentParser(prog="sidecar", description="The sidecar of one agent.")
    parser.add_argument("--config", type=Path, required=True, help="path of multiclaw.toml")
    parser.add_argument("--agent", required=True, help="the agent this sidecar speaks for")
    arguments = parser.parse_args()
    return run(f"sidecar-{arguments.agent}", partial(application, arguments.config, arguments.agent))


if __name__ == "__main__":
    sys.exit(main())
