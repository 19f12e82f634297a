"""What a drained batch means for the outbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.limits import BATCH_MESSAGES_MAX
from shared.problems import KINDS
from sidecar.core.link_outcome import UNSETTLED, Outcome, Verdict, first_unsettled
from sidecar.core.pacing import Pause, pause

FAULTS_MAX: Final = 5
"""How often one message may meet a fault of the adapter (`internal`, which is no matter of time) before it is set
aside: enough to survive a fault that a restart mends, few enough that one message never blocks the rest for long."""

COUNT_FIRST: Final = 16
"""How many leave in the first request of a drain. A new adapter hears of all sidecars at once, where systemd held its
socket open: so few of each are a fraction of a second, for 200 too."""

_COUNT_MIN: Final = 4
_SECONDS_SLOW: Final = 0.25
"""How long a request may take before the next ones are smaller. It is, for everybody else, the wait behind a drain."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Positions in the batch: which leave the outbox, which are set aside as dead, and whether to go on, which may
    be after a pause."""

    done: list[int]
    dead: list[int]
    proceed: bool
    pause: Pause | None = None


def next_count(count: int, seconds: float) -> int:
    """How many may leave in the next request, when the last one of up to `count` took so long.

    Halved where it was slow, doubled where twice as many would not have been: so many sidecars that drain at once leave
    room for others, and one alone drains in large requests.
    """
    if seconds > _SECONDS_SLOW:
        return max(_COUNT_MIN, count // 2)
    return min(BATCH_MESSAGES_MAX, count * 2) if seconds < _SECONDS_SLOW / 2 else count


def is_fault(outcome: Outcome) -> bool:
    """Whether the adapter itself judged this one message and failed at it."""
    kind = (outcome.problem or {}).get("type")
    return outcome.verdict is Verdict.UNKNOWN and kind in KINDS and not KINDS[kind].retryable


def plan(outcomes: Sequence[Outcome], faults_before: Sequence[int]) -> Plan:
    """Settle a batch. What is unsettled stays, in its place; what is behind it is not sent before it.

    Where the adapter says when to come again, the drain goes on then. Else it ends until the next recovery.
    """
    done: list[int] = []
    dead: list[int] = []
    proceed = True
    for position, (outcome, faults) in enumerate(zip(outcomes, faults_before, strict=True)):
        if outcome.verdict is Verdict.ACCEPTED:
            done.append(position)
        elif outcome.verdict not in UNSETTLED or (is_fault(outcome) and faults + 1 >= FAULTS_MAX):
            dead.append(position)
        else:
            proceed = False
    rest = None if proceed else pause(first_unsettled(outcomes), len(outcomes) - len(done) - len(dead))
    return Plan(done, dead, proceed or rest is not None, rest)
