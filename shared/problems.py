"""Every refusal, as an RFC 9457 problem. One table: whose fault, which status, is a retry of use?

    4xx  the caller's   never retried by our own code, except where `retryable` says so
    5xx  ours           retryable, within bounds; `internal` alone is a bug

`type` is a stable relative reference such as `stale-lease`. `detail` says what happened and what to do next.
"""

from dataclasses import dataclass
from typing import Any, Final

CONTENT_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """One stable sort of refusal: its HTTP status, its title, and whether the same request may succeed later."""

    status: int
    title: str
    retryable: bool = False


KINDS: Final[dict[str, Kind]] = {
    "malformed-request": Kind(400, "The request is not well-formed HTTP"),
    "malformed-json": Kind(400, "The body is not acceptable JSON"),
    "unauthenticated": Kind(401, "Who is calling is not proven"),
    "signature-invalid": Kind(401, "The signature does not match"),
    "signature-stale": Kind(401, "The signature is too old or from the future", retryable=True),
    "sender-forged": Kind(403, "The sender is fixed by the sidecar"),
    "sender-not-allowed": Kind(403, "This agent may not send this contract"),
    "not-permitted": Kind(403, "The role of this agent does not permit it"),
    "approval-required": Kind(403, "A human must approve first"),
    "not-a-member": Kind(403, "The agent is not a member of the channel"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-delivery": Kind(404, "No such delivery belongs to this agent"),
    "method-not-allowed": Kind(405, "The method is not allowed here"),
    "stale-lease": Kind(409, "The lease of this hand-over has ended"),
    "not-dead": Kind(409, "There is no open dead letter of this delivery"),
    "proposal-closed": Kind(409, "The proposal is not open for a decision"),
    "key-missing": Kind(409, "The key of a new agent is missing"),
    "in-flight": Kind(409, "It is being sent just now", retryable=True),
    "message-too-large": Kind(413, "The message is too large"),
    "unsupported-media-type": Kind(415, "The body must be JSON"),
    "range-not-retained": Kind(416, "The range holds no retained message"),
    "invalid-field": Kind(422, "A field is missing or invalid"),
    "unknown-field": Kind(422, "A field is not known"),
    "invalid-number": Kind(422, "A number would not arrive as it was written"),
    "invalid-text": Kind(422, "A text cannot be carried"),
    "unknown-recipient": Kind(422, "There is no such channel or agent"),
    "unknown-contract": Kind(422, "There is no such contract"),
    "contract-violation": Kind(422, "The message does not fulfil its contract"),
    "idempotency-conflict": Kind(422, "The idempotency key was used for other content"),
    "expired": Kind(422, "The message had expired before it was sent"),
    "held-back": Kind(424, "An earlier message of the same request must be sent first", retryable=True),
    "queue-full": Kind(429, "A recipient's queue is full", retryable=True),
    "not-scheduled": Kind(409, "The message is not scheduled any more"),
    "schedule-full": Kind(429, "Too many messages of this sender are scheduled"),
    "rate-limited": Kind(429, "The sender is faster than it may be", retryable=True),
    "too-many-replays": Kind(429, "As many replays run as may", retryable=True),
    "too-many-proposals": Kind(429, "Too many proposals wait for a human"),
    "internal": Kind(500, "A fault of ours"),
    "outbox-full": Kind(503, "The outbox is full", retryable=True),
    "adapter-unreachable": Kind(503, "The adapter cannot be reached", retryable=True),
    "store-unavailable": Kind(503, "The store cannot take or give messages", retryable=True),
    "shutting-down": Kind(503, "The process is shutting down", retryable=True),
}


class Problem(Exception):  # noqa: N818 - the term of RFC 9457
    """A refusal on its way to the caller.

    `field` is an RFC 6901 JSON pointer into the body (or `header X`, `query x`, `path x`); `retry_after` is in
    seconds; `extra` holds further members of the problem document.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        /,
        *,
        field: str | None = None,
        retry_after: float | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.field = field
        self.retry_after = retry_after
        self.extra = extra

    @property
    def status(self) -> int:
        """The HTTP status of this kind."""
        return KINDS[self.kind].status

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return KINDS[self.kind].retryable

    def document(self) -> dict[str, Any]:
        """The members of the problem document, ready for JSON."""
        kind = KINDS[self.kind]
        document: dict[str, Any] = {
            "type": self.kind,
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail,
            "retryable": kind.retryable,
        }
        if self.field is not None:
            document["field"] = self.field
        if self.retry_after is not None:
            document["retry_after"] = self.retry_after
        return document | self.extra

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Problem":
        """The problem a peer of ours described; an unknown kind becomes `internal` and keeps its words."""
        rest = {k: v for k, v in document.items() if k not in _OWN_MEMBERS}
        kind = document.get("type")
        detail = str(document.get("detail", "no detail was given"))
        if not isinstance(kind, str) or kind not in KINDS:
            kind, detail = "internal", f"unknown problem {kind!r}: {detail}"
        return cls(kind, detail, field=document.get("field"), retry_after=document.get("retry_after"), **rest)


_OWN_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "retryable", "field", "retry_after"})
