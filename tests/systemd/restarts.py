"""Measures a restart under systemd: `python -m tests.systemd.restarts [KILLS]`, as root.

Kills the adapter with SIGKILL again and again while two agents talk, checks that nothing is lost, and prints how long
it took until a send reached the adapter again and until it was received. Two seconds of that are the unit's
`RestartSec=`; the rest is the adapter's start and depends on how busy the machine is.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.systemd.box import Box, why_not
from tests.systemd.installation import build_wheel, install, shown
from tests.systemd.installed import ADAPTER, Installed, Traffic, until

KILLS_DEFAULT = 10


def kill_once(installed: Installed, traffic: Traffic) -> tuple[float, float]:
    """Seconds from the kill to the first send that is accepted, and to its receipt."""
    installed.box.run("systemctl", "reset-failed", ADAPTER)  # the start limit is not what is measured
    begin = time.monotonic()
    installed.box.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", ADAPTER)
    sure = len(traffic.receipts) + 1  # from here on, sends were begun after the kill
    until(lambda: traffic.accepted_since(sure) is not None, "a send is accepted")
    sent, number = time.monotonic() - begin, traffic.accepted_since(sure)
    until(lambda: str(number) in traffic.received, "it is received")
    return sent, time.monotonic() - begin


def measure(kills: int) -> None:
    """Print one line for each kill, and the medians."""
    with tempfile.TemporaryDirectory() as folder, Box(shown(build_wheel(Path(folder)))) as box:
        install(box)
        installed = Installed(box)
        installed.start()
        figures = []
        with installed.agent("pm") as pm, installed.agent("qa") as qa, Traffic(pm, qa) as traffic:
            for number in range(1, kills + 1):
                until(lambda: len(traffic.received) > 20, "messages flow")
                sent, received = kill_once(installed, traffic)
                figures.append((sent, received))
                print(f"kill {number}: sent after {sent:.2f} s, received after {received:.2f} s", flush=True)
            traffic.finish()
            assert traffic.received == [str(number) for number in range(len(traffic.receipts))]
    medians = [statistics.median(column) for column in zip(*figures, strict=True)]
    print(
        f"median: sent after {medians[0]:.2f} s, received after {medians[1]:.2f} s; {len(traffic.receipts)} sends, "
        "each received once, in order"
    )


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS_DEFAULT)
