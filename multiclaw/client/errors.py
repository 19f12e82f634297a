"""What can go wrong, by whose fault it is and whether the same call may succeed later.

MulticlawError
├── ConfigurationError   yours: where the sidecar is was not said, or is wrong; nothing was sent
├── InvalidMessage       yours: it cannot be carried as JSON; nothing was sent (also a ValueError)
├── BatchFailed          some sends of a batch: `outcomes` has the fate of each
└── SidecarError         an answer of the sidecar, or the lack of one
    ├── Refused          the caller's (4xx): change the call, unless `retryable`
    │   └── StaleLease   the hand-over has ended; the message was or will be handed over again
    └── Unavailable      not yours: no answer, or a 5xx, even after retries; try again later

Refuse                   not an error: what a handler raises to say that it will never take a message
"""

from collections.abc import Mapping, Sequence
from typing import Any


class MulticlawError(Exception):
    """The base of all errors of the client."""


class ConfigurationError(MulticlawError):
    """It is not clear, or not possible, where to find the sidecar. The text says what to do."""


class InvalidMessage(MulticlawError, ValueError):  # noqa: N818 - named for what it reports
    """A value that JSON cannot carry unchanged. `field` is an RFC 6901 pointer to the offender."""

    def __init__(self, detail: str, field: str) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.detail = detail
        self.field = field


class SidecarError(MulticlawError):
    """What the sidecar answered, as RFC 9457 describes it.

    `type` is stable, such as `unknown-recipient`; `unreachable` when there was no answer at all. `status` is the
    HTTP status or None. `attempts` counts the requests that were made. `key` is the idempotency key of a send:
    sending again with it can never make a second message.
    """

    def __init__(self, status: int | None, document: Mapping[str, Any]) -> None:
        self.type = str(document.get("type", f"http-{status}"))
        self.detail = str(document.get("detail", f"the sidecar answered {status} without a reason"))
        super().__init__(f"{self.type}: {self.detail}")
        self.status = status
        self.document = document
        self.field: str | None = document.get("field")
        self.retryable = bool(document.get("retryable", False))
        self.retry_after: float | None = document.get("retry_after")
        self.attempts = 1
        self.key: str | None = None


class Refused(SidecarError):  # noqa: N818 - named for what it reports
    """The sidecar or the adapter will not do it: a 4xx."""


class StaleLease(Refused):
    """The hand-over has ended. `stale` names the delivery ids concerned, where the answer does."""

    @property
    def stale(self) -> list[str]:
        """Delivery ids whose lease has ended."""
        return list(self.document.get("stale", []))


class Unavailable(SidecarError):  # noqa: N818 - named for what it reports
    """No answer, or a 5xx."""


class BatchFailed(MulticlawError):  # noqa: N818 - named for what it reports
    """At least one send of a batch failed. `outcomes` holds a `Receipt` or an error for each, in order."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        failed = [outcome for outcome in outcomes if isinstance(outcome, SidecarError)]
        super().__init__(f"{len(failed)} of {len(outcomes)} sends failed, the first with {failed[0]}")
        self.outcomes = list(outcomes)


class Refuse(Exception):  # noqa: N818 - an act of a handler, not an error
    """Raise it in a handler to refuse a message for good: it becomes a dead letter with this reason."""


def from_problem(status: int, document: Mapping[str, Any]) -> SidecarError:
    """The error that an answer of 400 and above stands for."""
    if status >= 500:
        return Unavailable(status, document)
    return (StaleLease if document.get("type") == "stale-lease" else Refused)(status, document)


def unreachable(detail: str, *, retryable: bool = True) -> Unavailable:
    """The error for no usable answer."""
    return Unavailable(None, {"type": "unreachable", "detail": detail, "retryable": retryable})
