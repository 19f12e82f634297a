"""How far the wall clock is believed: only as far as it has agreed with the steady one.

A wall clock may jump: by a hand, a dead battery, a wrong time server. What is decided by it and cannot be undone goes
by the time that is trusted here: a line from the last moment at which both clocks agreed, along the steady clock.
A wall that leaves the line by more than an hour, either way, is believed again when it has come back to it, or when it
has kept step with the steady clock for a stated time of running. Where the adapter was not running, nobody can tell an
absence from a jump, so that counts as a jump as well, and what is trusted falls behind for that while.
"""

from dataclasses import dataclass
from typing import Final, Literal

from adapter.core.policy import Now
from shared.times import MICROSECONDS

TOLERANCE_US: Final = 3_600 * MICROSECONDS
"""Less than this a clock may be set by, or creep, in the time that it takes to be believed."""

ABSENCE_US: Final = 7 * 86_400 * MICROSECONDS
"""How long an adapter may have been away before somebody is told at its start that the clock may have jumped: nights,
weekends and short holidays are nothing to tell."""

Jump = Literal["ahead", "behind"]


@dataclass(frozen=True, slots=True)
class Line:
    """What the wall clock said at a moment of the steady one, and would say if it kept step."""

    wall_us: int
    steady_us: int

    def at(self, now: Now) -> int:
        """Its wall time now."""
        return self.wall_us + now.steady_us - self.steady_us

    def agrees(self, now: Now) -> bool:
        """Whether the wall is still on it."""
        return abs(now.wall_us - self.at(now)) <= TOLERANCE_US


@dataclass(frozen=True, slots=True)
class ClockTrust:
    """The line that is believed and, while the wall has left it, the one that it follows since."""

    believed: Line
    claimed: Line | None = None

    def time_us(self, now: Now) -> int:
        """The wall time that is trusted: never later than what the wall says itself."""
        return min(now.wall_us, self.believed.at(now))

    def observe(self, now: Now, agree_us: int) -> "ClockTrust":
        """What is believed after a look at both clocks. A line is followed anew after `agree_us` of agreement."""
        if self.believed.agrees(now):
            settled = now.steady_us - self.believed.steady_us >= agree_us
            return ClockTrust(Line(now.wall_us, now.steady_us) if settled else self.believed)
        if self.claimed is None or not self.claimed.agrees(now):
            return ClockTrust(self.believed, Line(now.wall_us, now.steady_us))
        if now.steady_us - self.claimed.steady_us >= agree_us:
            return ClockTrust(Line(now.wall_us, now.steady_us))
        return self

    def jump(self, after: "ClockTrust", *, at_start: bool) -> Jump | None:
        """Whether the look that gave `after` found a jump that somebody must hear of."""
        if after.claimed is None or after.claimed is self.claimed:
            return None
        claimed = Now(after.claimed.wall_us, after.claimed.steady_us)
        ahead_us = claimed.wall_us - self.believed.at(claimed)
        if ahead_us < 0:
            return "behind"
        return None if at_start and ahead_us <= ABSENCE_US else "ahead"
