"""The two clocks. Wall time stamps what people read; steady time decides when things are due."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

MICROSECONDS: Final = 1_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


class Clock:
    """Microseconds since the epoch, two ways.

    `steady_us` starts at the wall's reading and then follows the monotonic clock, so a step of the wall neither
    ends leases nor freezes them. What is stored of it is read by the next process, which clamps it.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._base = wall() - monotonic()

    def wall_us(self) -> int:
        """The wall clock; may step."""
        return int(self._wall() * MICROSECONDS)

    def steady_us(self) -> int:
        """The steady clock; never goes back within a process."""
        return int((self._base + self._monotonic()) * MICROSECONDS)


def iso(us: int) -> str:
    """RFC 3339 in UTC with microseconds and `Z`."""
    moment = _EPOCH + us * _MICROSECOND  # whole microseconds: a float would lose some
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """Microseconds of an RFC 3339 time with an offset; raises `ValueError` for anything else.

    `fromisoformat` alone also takes week dates, a missing offset and more of ISO 8601 that other readers refuse.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError("a time needs a date, a 'T', seconds, and an offset such as 'Z' or '+02:00'")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND
