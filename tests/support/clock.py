"""A clock that tests set."""

from shared.clock import Clock
from shared.times import MICROSECONDS

START_SECONDS = 1_800_000_000
"""Where settable clocks begin: 2027-01-15, later than any build and inside every date type."""


class SettableClock(Clock):
    """Stands still until told; wall and steady time can be moved apart, as a step of the wall does."""

    def __init__(self, start_seconds: float = START_SECONDS) -> None:
        self.wall_seconds = self.steady_seconds = float(start_seconds)
        super().__init__(wall=lambda: self.wall_seconds, monotonic=lambda: self.steady_seconds)

    def advance(self, seconds: float) -> None:
        """Time passes on both clocks."""
        self.wall_seconds += seconds
        self.steady_seconds += seconds

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock; durations do not notice."""
        self.wall_seconds += seconds


def us(seconds: float) -> int:
    """Seconds as the microseconds that commands and rows hold."""
    return round(seconds * MICROSECONDS)
