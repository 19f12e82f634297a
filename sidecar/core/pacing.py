"""What it means for those that wait when the adapter says when to come again (`rate-limited`, `queue-full`)."""

from dataclasses import dataclass
from typing import Final

from shared.limits import BATCH_MESSAGES_MAX
from sidecar.core.link_outcome import Outcome, Verdict

DIRECT_WAIT_SECONDS_MAX: Final = 5.0
"""How long a send may wait on the direct path because its agent is too fast, counted from its arrival; then it enters
the outbox. A third of what the client gives one answer, so that an agent hears 201 or 202 and never nothing."""

_TOGETHER_SECONDS: Final = 0.1
"""What a rate brings in this time leaves in one request: fewer would cost a request for each message, and more would
be signed and sent only to be refused."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long, then send up to `count` together, in their order."""

    seconds: float
    count: int


def pause(first: Outcome | None, waiting: int) -> Pause | None:
    """What the first that has to come again asks for; None if there is none, or it does not say when.

    `waiting` is how many there are in all: for fewer than a rate brings soon, the wait is shorter.
    """
    problem = first.problem if first is not None and first.verdict is Verdict.LATER else None
    if problem is None or problem.get("retry_after") is None:
        return None
    seconds, per_second = float(problem["retry_after"]), problem.get("per_second")
    if per_second is None:
        return Pause(seconds, BATCH_MESSAGES_MAX)
    count = max(1, min(waiting, int(per_second * _TOGETHER_SECONDS), BATCH_MESSAGES_MAX))
    return Pause(seconds + (count - 1) / per_second, count)
