"""What came back over the link, and what it means for a message: one place decides.

    ACCEPTED     the adapter did it
    REFUSED      a verdict about the request itself: never retried, passed on to the caller
    LATER        refused for now: the same request may succeed, order is kept meanwhile
    UNREACHABLE  no connection was made: certainly not received
    UNKNOWN      the bytes left and no believable answer came: it may have been received

Only the last two count against the link. A request that may have been received is repeated with the same idempotency
key, so that repeating it is harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

from shared.problems import Problem


class Verdict(Enum):
    """What became of one request, or of one message of a batch."""

    ACCEPTED = auto()
    REFUSED = auto()
    LATER = auto()
    UNREACHABLE = auto()
    UNKNOWN = auto()


LINK_FAILURES: Final = frozenset({Verdict.UNREACHABLE, Verdict.UNKNOWN})
"""What the breaker counts."""

UNSETTLED: Final = frozenset({Verdict.LATER, Verdict.UNREACHABLE, Verdict.UNKNOWN})
"""What keeps a message in the outbox, and what is after it behind it."""


def classify(status: int | None, *, connected: bool = True, verified: bool = True, retryable: bool = False) -> Verdict:
    """The verdict on an answer of `status`, or on the lack of one (`None`).

    `verified` tells whether the answer was signed for this very request; `retryable` is what its problem says.
    """
    if not connected:
        return Verdict.UNREACHABLE
    if status is None or not verified or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Verdict.UNKNOWN
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return Verdict.ACCEPTED
    return Verdict.LATER if retryable else Verdict.REFUSED


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """What one request over the link came to; `document` is the answer's JSON where it could be believed."""

    verdict: Verdict
    status: int | None = None
    document: dict[str, Any] | None = None

    def expect(self) -> dict[str, Any]:
        """The document of a success; else the `Problem` to tell the agent."""
        if self.verdict is Verdict.ACCEPTED and self.document is not None:
            return self.document
        if self.document is not None:
            raise Problem.from_document(self.document)
        raise unreachable()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one send: the status and the body it is answered with, `answer` or `problem`."""

    verdict: Verdict
    code: int
    answer: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        """As an element of a batch answer."""
        return (
            {"code": self.code, "answer": self.answer} if self.answer else {"code": self.code, "problem": self.problem}
        )


def must_wait(outcome: Outcome) -> bool:
    """Whether a send that was tried directly has to wait in the outbox.

    A recipient's full queue is for the sender to know, at once and with `Retry-After` (promise 7): in the outbox it
    would hold up everything meant for others.
    """
    return outcome.verdict in UNSETTLED and _kind(outcome) != "queue-full"


def first_unsettled(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The first that has to come again: what is behind it must not be sent before it."""
    return next((outcome for outcome in outcomes if outcome.verdict in UNSETTLED), None)


def is_too_fast(outcome: Outcome) -> bool:
    """Whether the adapter refused the message because its sender is faster than it may be."""
    return _kind(outcome) == "rate-limited"


def _kind(outcome: Outcome) -> str | None:
    return (outcome.problem or {}).get("type")


def refused(problem: Problem) -> Outcome:
    """The outcome of a send that a problem of our own ended."""
    return Outcome(Verdict.REFUSED, problem.status, problem=problem.document())


def read_outcome(element: dict[str, Any]) -> Outcome:
    """The outcome of one message of a batch, as the adapter tells it."""
    code, problem = int(element["code"]), element.get("problem")
    retryable = bool(problem and problem.get("retryable"))
    return Outcome(classify(code, retryable=retryable), code, element.get("answer"), problem)


def unreachable() -> Problem:
    """The refusal of what needs the adapter while it cannot be reached."""
    detail = "The adapter cannot be reached now; sends are queued meanwhile. Try again shortly."
    return Problem("adapter-unreachable", detail, retry_after=1.0)
