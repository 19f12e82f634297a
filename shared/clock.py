"""The two clocks. Wall time stamps what people read; steady time decides when things are due."""

import time
from collections.abc import Callable

from shared.times import MICROSECONDS


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
