"""Whether the store has shown lately that it takes writes, and when it must show it again (promise 14).

A store that nobody writes to says nothing of its disk. So whoever asks whether it is ready makes it prove itself:

    look    take the write lock and let it go: costs a thread's turn, touches no disk, and finds a store that another
            process holds and a writer that hangs or is gone
    write   make one row durable: finds a disk that is full, read-only or broken

Looks are as frequent as the questions. Writes grow rarer the longer nothing happens, so that a laptop's disk may sleep,
and become frequent while the disk is nearly full or read-only, where the next message is at risk.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.times import MICROSECONDS

FRESH_US: Final = MICROSECONDS // 4
"""For so long an answer of the store is good. A hundred sidecars that ask every second share four looks."""

_AT_RISK_US: Final = MICROSECONDS
_IDLE_SHARE: Final = 4
_PAUSES_MAX: Final = 60
_ROOM_BYTES_MIN: Final = 64 * 1024 * 1024
"""Space for one more of the largest logs that a store keeps; below it a disk counts as nearly full."""


@dataclass(slots=True)
class Pulse:
    """When the store last answered, made something durable, and had a message's work. Steady microseconds."""

    every_us: int
    answered_us: int = 0
    written_us: int = 0
    worked_us: int = 0

    def opened(self, now_us: int) -> None:
        """It was opened, and wrote to prove it."""
        self.answered_us = self.written_us = self.worked_us = now_us

    def worked(self, now_us: int, *, wrote: bool) -> None:
        """A group is committed; one that only looked wrote nothing."""
        self.answered_us = now_us
        if wrote:
            self.written_us = self.worked_us = now_us

    def probed(self, now_us: int, *, wrote: bool) -> None:
        """A probe is over. It is no work: else an idle store would never grow quiet."""
        self.answered_us = now_us
        if wrote:
            self.written_us = now_us

    def is_fresh(self, now_us: int) -> bool:
        """Whether nobody need ask again."""
        return now_us - self.answered_us < FRESH_US

    def must_write(self, now_us: int, *, at_risk: bool) -> bool:
        """Whether a look is not enough. The pause is a quarter of the time without work, within bounds."""
        idle_us = now_us - self.worked_us
        pause_us = max(self.every_us, min(idle_us // _IDLE_SHARE, self.every_us * _PAUSES_MAX))
        return now_us - self.written_us >= (min(pause_us, _AT_RISK_US) if at_risk else pause_us)


def is_at_risk(folder: Path) -> bool:
    """Whether the file system of `folder` is nearly full or read-only. Asks the kernel, and not the disk."""
    found = os.statvfs(folder)
    return bool(found.f_flag & os.ST_RDONLY) or found.f_bavail * found.f_frsize < _ROOM_BYTES_MIN
