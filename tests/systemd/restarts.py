"""Measures a restart under systemd: `python -m tests.systemd.restarts [KILLS]`, as root.

Kills the adapter with SIGKILL again and again while six agents talk, 50 sends a second from each of three, checks that
nothing is lost, and prints how long it took until a send reached the adapter again, until something was received that
was sent after the kill, and until all three pairs were served and no outbox held anything. Two seconds of that are the
unit's `RestartSec=`; the rest is the adapter's start and depends on how busy the machine is.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared.times import MICROSECONDS
from tests.systemd.box import Box, why_not
from tests.systemd.installation import build_wheel, install, shown
from tests.systemd.installed import ADAPTER, Installed, Traffic, until

KILLS_DEFAULT = 10
_PAIRS = (("pm", "qa"), ("engineering", "growth"), ("orchestrator", "research"))


class Restart(NamedTuple):
    """Seconds from the kill until the adapter is ready for systemd, until a send was accepted, until one was received
    that was begun after the kill, and until all senders were served and their outboxes empty."""

    ready: float
    sent: float
    received: float
    drained: float


def kill_once(installed: Installed, traffic: Traffic, *others: Traffic) -> Restart:
    """Kill the adapter; the send that is measured is one of `traffic`."""
    installed.box.run("systemctl", "reset-failed", ADAPTER)  # the start limit is not what is measured
    pairs = (traffic, *others)
    begin = time.monotonic()
    installed.box.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", ADAPTER)
    sure = [len(pair.receipts) + 1 for pair in pairs]  # from here on, sends were begun after the kill
    awaited = {
        "received": lambda: traffic.has_received_since(sure[0]),
        "sent": lambda: traffic.accepted_since(sure[0]) is not None,
        "drained": lambda: _all_served(pairs, sure),
    }
    seconds: dict[str, float] = {}

    def all_happened() -> bool:
        for name in [name for name, happened in awaited.items() if name not in seconds and happened()]:
            seconds[name] = time.monotonic() - begin
        return len(seconds) == len(awaited)

    until(all_happened, "all are served, and every outbox is empty")
    ready = int(installed.show(ADAPTER, "ActiveEnterTimestampMonotonic")) / MICROSECONDS - begin
    return Restart(ready, **seconds)


def _all_served(pairs: Sequence[Traffic], sure: Sequence[int]) -> bool:
    served = all(pair.accepted_since(first) is not None for pair, first in zip(pairs, sure, strict=True))
    return served and all(pair.outbox_depth == 0 for pair in pairs)


def measure(kills: int) -> None:
    """Print one line for each kill, and the medians."""
    with tempfile.TemporaryDirectory() as folder, Box(shown(build_wheel(Path(folder)))) as box:
        install(box)
        installed = Installed(box)
        installed.start()
        restarts = []
        with contextlib.ExitStack() as stack:
            agents = {name: stack.enter_context(installed.agent(name)) for pair in _PAIRS for name in pair}
            pairs = [stack.enter_context(Traffic(agents[one], agents[other])) for one, other in _PAIRS]
            for number in range(1, kills + 1):
                until(lambda: all(pair.flows for pair in pairs), "messages flow")
                restarts.append(kill_once(installed, *pairs))
                print(f"kill {number}: {_words(restarts[-1])}", flush=True)
            for pair in pairs:
                pair.finish()
                assert pair.received == [str(number) for number in range(len(pair.receipts))]
        sends = sum(len(pair.receipts) for pair in pairs)
        queued = sum(receipt.status == "queued" for pair in pairs for receipt in pair.receipts)
    median = Restart(*map(statistics.median, zip(*restarts, strict=True)))
    print(f"median of {kills}: {_words(median)} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
    print(f"{sends} sends, {queued} of them through outboxes, each received once, in order")


def _words(times: Restart) -> str:
    words = f"ready after {times.ready:.2f} s, sent after {times.sent:.2f} s, received after {times.received:.2f} s"
    return f"{words}, all served and drained after {times.drained:.2f} s"


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS_DEFAULT)
