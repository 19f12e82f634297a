"""Which alarm is told next by one way, when it is tried again, and when it is given up. Times are in microseconds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from multiclaw.watch.core.alarm import Alarm

PENDING_MAX: Final = 1_000
"""Alarms that wait for one way, of some kilobytes each. A team raises a few a day, so that many wait only where a way
has not worked for long while something raises them in a loop; the newest tell more than the oldest then."""

_RETRY_SECONDS_CAP: Final = 60.0
_DOUBLINGS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Pending:
    """An alarm that waits to be told by `ways`. `number` is its place in the order in which they were taken."""

    number: int
    taken_us: int
    alarm: Alarm
    ways: tuple[str, ...]


def next_for(way: str, pending: Iterable[Pending], failures: Mapping[str, int]) -> Pending | None:
    """The one that failed least often (`failures` by alarm id), then the oldest.

    So an alarm that can never be told holds up no other.
    """
    waiting = (one for one in pending if way in one.ways)
    return min(waiting, key=lambda one: (failures.get(one.alarm.id, 0), one.number), default=None)


def retry_seconds(failures: int) -> float:
    """The wait after so many failures of a way in a row: 1 s, doubled up to a minute."""
    return min(_RETRY_SECONDS_CAP, 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX))


def is_over(pending: Pending, now_us: int, give_up_us: int) -> bool:
    """Whether an alarm has waited as long as it may. A wall clock that went back only makes it wait longer."""
    return now_us - pending.taken_us >= give_up_us


def overflowing(way: str, pending: Iterable[Pending]) -> list[Pending]:
    """What must be given up of a way so that one more has room: the oldest."""
    waiting = sorted((one for one in pending if way in one.ways), key=lambda one: one.number)
    return waiting[: max(0, len(waiting) - PENDING_MAX + 1)]
