"""The agents' API of section 5 of the design: what a sidecar takes and gives. The link reuses what it can."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel

from shared.envelope import Content, IdempotencyKey, Name, StoredEnvelope
from shared.limits import (
    BATCH_MESSAGES_MAX,
    LEASE_SECONDS_MAX,
    POLL_MESSAGES_MAX,
    POLL_WAIT_SECONDS_MAX,
    REASON_CHARS_MAX,
)
from shared.model import Model

DeliveryId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="one hand-over, its lease token",
    ),
]
DeliveryIds = Annotated[list[DeliveryId], Field(min_length=1, max_length=BATCH_MESSAGES_MAX)]
DeliveryStatus = Literal["queued", "leased", "acked", "dead"]


class SendRequest(Content):
    """A message to send. The sidecar makes the key if there is none, and stamps the sender."""

    idempotency_key: IdempotencyKey | None = None
    sender: str | None = Field(default=None, description="ignored if it is your own name, refused if it is not")


class RecipientStatus(Model):
    """How far the message got with one recipient."""

    agent: Name
    status: DeliveryStatus
    reason: str | None = Field(default=None, description="why it is dead")
    unread: int = Field(description="messages that wait for this recipient or are in its hands")
    last_seen: str | None = Field(description="when it last polled, or null if it never did")


class Accepted(Model):
    """Committed by the adapter: 201 the first time, 200 for a duplicate."""

    status: Literal["accepted", "duplicate"]
    channel: str
    channel_sequence_id: int
    timestamp_iso8601: str
    idempotency_key: str
    recipients: list[RecipientStatus]


class Queued(Model):
    """Committed to the sidecar's own outbox: 202."""

    status: Literal["queued"]
    outbox_position: int = Field(description="1 is the next to leave")
    idempotency_key: str


class Scheduled(Model):
    """Committed by the adapter, to be sent at its time: 202. `duplicate` if it was scheduled before."""

    status: Literal["scheduled"]
    deliver_at: str
    idempotency_key: str
    duplicate: bool


class Later(RootModel[Queued | Scheduled]):
    """Committed, and not sent yet: it waits in the sidecar's outbox for the adapter, or at the adapter for its time."""


class ProblemDocument(Model):
    """RFC 9457, with what a caller needs to act. Further members belong to the kind: `errors`, `stale`, `allowed`."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    retryable: bool
    field: str | None = None
    retry_after: float | None = Field(default=None, description="seconds; also in the Retry-After header")


class BatchRequest(Model):
    """Up to 100 sends, each checked and answered apart."""

    messages: list[dict[str, Any]] = Field(
        min_length=1, max_length=BATCH_MESSAGES_MAX, description="each as for a single send"
    )


class Outcome(Model):
    """What became of one send of a batch: the status and body it would have had alone."""

    code: int
    answer: Accepted | Queued | Scheduled | None = None
    problem: ProblemDocument | None = None


class BatchAnswer(Model):
    """Outcomes in the order of the messages."""

    outcomes: list[Outcome]


class Delivery(Model):
    """One hand-over of one message."""

    delivery_id: DeliveryId
    attempt: int = Field(description="hand-overs of this message to this agent, this one included")
    redelivered: bool
    lease_expires_at: str
    envelope: StoredEnvelope


class Gap(Model):
    """Sequences of a channel that this agent has not been given; read them by range."""

    channel: str
    first: int = Field(alias="from")
    last: int = Field(alias="to")
    reason: Literal["restored"] | None = Field(
        default=None,
        description="`restored`: the store was put back to an older state, or repaired with losses, and these are lost "
        "or were never given",
    )


class PollAnswer(Model):
    """Messages in commit order, and what is missing before them."""

    messages: list[Delivery]
    gaps: list[Gap]


class AckRequest(Model):
    """The messages are processed."""

    delivery_ids: DeliveryIds
    results: dict[DeliveryId, Any] | None = Field(default=None, description="any JSON, per delivery")


class AckAnswer(Model):
    """`deferred` ones are kept here for good; the adapter is told when it is back, or hands them over again."""

    acked: list[str]
    deferred: list[str] = Field(default_factory=list)


class AckOutcome(Model):
    """What became of the acks that a poll carried: the status and body that they would have had alone."""

    code: int
    answer: AckAnswer | None = None
    problem: ProblemDocument | None = None


class ReceiveRequest(Model):
    """A poll that carries acks. They are committed before anything is waited for, and answered with the messages."""

    wait: Annotated[float, Field(ge=0, le=POLL_WAIT_SECONDS_MAX)] = 0.0
    max: Annotated[int, Field(ge=1, le=POLL_MESSAGES_MAX)] = 10
    acks: AckRequest | None = None


class ReceiveAnswer(PollAnswer):
    """The answer to a poll, and what became of its acks; a problem has the member `acks` likewise."""

    acks: AckOutcome | None = None


class NackRequest(Model):
    """The message is not processed. `release` is free, `fail` spends an attempt, `refuse` is final."""

    delivery_id: DeliveryId
    mode: Literal["release", "fail", "refuse"] = "fail"
    reason: Annotated[str, Field(max_length=REASON_CHARS_MAX)] | None = None


class NackAnswer(Model):
    """Where the delivery went."""

    delivery_id: str
    status: Literal["queued", "dead"]


class ExtendRequest(Model):
    """More time: the lease ends `seconds` from now."""

    delivery_ids: DeliveryIds
    seconds: Annotated[float, Field(gt=0, le=LEASE_SECONDS_MAX)]


class Lease(Model):
    """A hand-over and when its lease ends."""

    delivery_id: str
    lease_expires_at: str


class ExtendAnswer(Model):
    """The new ends."""

    leases: list[Lease]


class RangeAnswer(Model):
    """Messages of one channel by sequence. `next` continues a page that was cut."""

    channel: str
    messages: list[StoredEnvelope]
    gaps: list[Gap] = Field(description="what is no longer retained of what was asked for")
    last: int = Field(description="the channel's newest sequence")
    next: int | None = None


class TaskStep(Model):
    """One message about a task."""

    channel: str
    channel_sequence_id: int
    timestamp_iso8601: str
    sender: str
    type: str


class TaskView(Model):
    """A task as its messages tell it."""

    task_id: str
    parent_task_id: str | None
    state: Literal["assigned", "accepted", "declined", "in-progress", "done", "cancelled", "unknown"]
    steps: list[TaskStep]


class LineageView(Model):
    """The whole tree that a task belongs to: its root first, parents before children."""

    root: str
    tasks: list[TaskView]


class EmergencyRequest(Model):
    """A call for help that needs no adapter."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    summary: Annotated[str, Field(min_length=1, max_length=1_000)]
    details: Any = None


class EmergencyAnswer(Model):
    """Where the entry was written."""

    recorded: Literal["journald", "file", "stderr"]


class LastingCondition(Model):
    """A trouble of the sidecar that the journal was told of, and that is not over."""

    condition: str = Field(description="as the journal calls it, such as `outbox-full`")
    severity: Literal["critical", "warning"]
    since: str
    detail: str


class SidecarHealth(Model):
    """The state of a sidecar and of its way to the adapter."""

    status: Literal["ok", "degraded"]
    agent: str
    pid: int
    adapter_reachable: bool
    shut_out: str | None = Field(description="why the adapter lets this agent in no more; null while it does")
    breaker: Literal["closed", "open", "half-open"]
    outbox_depth: int
    outbox_dead: int = Field(description="sends the adapter refused for good after they had been queued")
    outbox_max: int
    outbox_oldest_at: str | None = Field(description="when the first send that waits was queued")
    deferred_acks: int
    conditions: list[LastingCondition]
    sqlite_version: str
    sqlite_verdict: str = Field(description="`safe`, or `unsafe: ` and why")
    page_checksums: str = Field(description="`on`, or `off: ` and why")
