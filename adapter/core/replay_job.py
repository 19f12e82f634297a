"""The state machine of a replay job, which has many dead letters tried again at a rate, and the arithmetic of rates.

This file owns the states and the table of transitions. What is not in the table is illegal and raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from adapter.core.dead_letters import Filter
from shared.replays import RATE_MAX
from shared.times import MICROSECONDS


class JobState(StrEnum):
    """Where a job is. The words are stored."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class JobEvent(StrEnum):
    """What ends a job."""

    FINISH = "finish"  # nothing is left of what it was asked for
    CANCEL = "cancel"  # somebody decided so


TRANSITIONS: Final[dict[tuple[JobState, JobEvent], JobState]] = {
    (JobState.RUNNING, JobEvent.FINISH): JobState.DONE,
    (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """Replays of the open dead letters that match, those that died before its cut-off (`wanted.before_us`).

    `rate` is per second, None the highest; `limit` ends the job once so many were replayed or refused. `lanes`
    has, for each recipient that is not done, the number of the message up to which it has gone; `waiting` are those of
    them whose queues have no room now. `matched` is what was there at the start. Times are wall microseconds.
    """

    id: str
    wanted: Filter
    rate: float | None
    limit: int | None
    created_at_us: int
    matched: int
    lanes: Mapping[str, int]
    waiting: tuple[str, ...] = ()
    replayed: int = 0
    refused: int = 0
    state: JobState = JobState.RUNNING
    ended_at_us: int | None = None

    @property
    def left(self) -> int:
        """How many more it may touch, at most; what others have dealt with meanwhile is not known."""
        if self.state is not JobState.RUNNING:
            return 0
        most = self.matched if self.limit is None else min(self.limit, self.matched)
        return max(0, most - self.replayed - self.refused)

    def moved(self, event: JobEvent, wall_us: int) -> "ReplayJob":
        """The job after `event`; an illegal one raises `ValueError`."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            raise ValueError(f"a {self.state} replay cannot {event}")
        return replace(self, state=target, ended_at_us=wall_us, waiting=())


GAP_US: Final = MICROSECONDS // 20
"""How long a job rests after its part of a group. Each part costs a sync of the disk, of which sends must have the
most: on a disk that makes 200 in a second, a job takes a tenth."""

_BURST_US: Final = 2 * GAP_US
"""How much of a delay a rate makes good: a store that was slow for a minute is not followed by a minute's replays."""

_YIELD: Final = 8
"""How much longer it rests than it was made to wait. A tick is late when the writer or the machine is busy: then a job
takes no more than about a tenth of it, and is slower than its rate."""


class Pace:
    """When the next replays of a job are due, in steady microseconds. It yields where others wait."""

    def __init__(self, rate: float | None, now_us: int) -> None:
        self._step_us = MICROSECONDS / min(rate or RATE_MAX, RATE_MAX)
        self._due_us = float(now_us)
        self._rests_until_us = now_us

    @property
    def due_us(self) -> int:
        """When the next ones may go."""
        return max(int(self._due_us), self._rests_until_us)

    def allows(self, now_us: int, at_most: int) -> int:
        """How many may go now."""
        if now_us < self.due_us:
            return 0
        late_us = min(now_us - self._due_us, _BURST_US)
        return min(at_most, int(late_us / self._step_us) + 1)

    def spent(self, count: int, now_us: int) -> None:
        """So many went now."""
        late_us = min(now_us - self.due_us, _BURST_US)
        self._due_us = max(self._due_us, float(now_us - _BURST_US)) + count * self._step_us
        self._rests_until_us = now_us + GAP_US + _YIELD * late_us

    def wait(self, until_us: int) -> None:
        """Nothing can go before then."""
        self._rests_until_us = max(self._rests_until_us, until_us)
