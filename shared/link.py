"""The link: what sidecars say to the adapter, over its Unix socket, each request and answer signed."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from shared.api import AckOutcome, AckRequest, Delivery
from shared.backups import BackupState
from shared.envelope import Sequence, StoredEnvelope
from shared.limits import BATCH_MESSAGES_MAX, POLL_MESSAGES_MAX, POLL_WAIT_SECONDS_MAX
from shared.model import Model

ROOT: Final = "/link/v1"
MESSAGES_PATH: Final = "/link/v1/messages"
POLL_PATH: Final = "/link/v1/poll"
ACK_PATH: Final = "/link/v1/ack"
NACK_PATH: Final = "/link/v1/nack"
EXTEND_PATH: Final = "/link/v1/extend"
CHANNEL_PATH: Final = "/link/v1/channels/{channel}/messages"
TASK_PATH: Final = "/link/v1/tasks/{task_id}"
OPEN_PATH: Final = "/link/v1/open"
LINEAGE_PATH: Final = "/link/v1/tasks/{task_id}/lineage"
INBOX_PATH: Final = "/link/v1/governor/inbox"
READ_PATH: Final = "/link/v1/governor/read"

INBOX_MESSAGES_MAX: Final = 100
"""Messages of one page of the Governor's inbox."""


class SubmitRequest(Model):
    """Signed envelopes of one sidecar, in its agent's order. The answer is a `BatchAnswer`."""

    envelopes: list[dict[str, Any]] = Field(min_length=1, max_length=BATCH_MESSAGES_MAX)


PollId = Annotated[str, Field(pattern=r"^[0-9a-f]{8,32}$")]


class PollRequest(Model):
    """Hand over up to `max` messages, waiting up to `wait` seconds for the first.

    A sidecar names its polls. One whose answer never came, because the adapter or the connection died, is named in
    `lost` of the next: what had been handed over to it comes back at once and free, instead of when its lease ends.

    `acks` are committed together with the hand-over, just before it, and before any waiting. Where one of them is
    refused nothing is waited for.
    """

    wait: Annotated[float, Field(ge=0, le=POLL_WAIT_SECONDS_MAX)] = 0.0
    max: Annotated[int, Field(ge=1, le=POLL_MESSAGES_MAX)] = 10
    poll: PollId | None = None
    lost: Annotated[list[PollId], Field(max_length=16)] | None = None
    acks: AckRequest | None = None
    restores: Annotated[int, Field(ge=0)] = Field(default=0, description="`restores` of an earlier answer")


class Lost(Model):
    """Sequences of a channel that are lost, since the store was put back to an older state or repaired with losses, or
    were never given.
    """

    channel: str
    first: int = Field(alias="from")
    last: int = Field(alias="to")


class HandOver(Model):
    """The answer to a poll. Where the store was put back to an older state, or repaired with losses, since the poller
    last heard of it, what its channels have lost, and the number that names the newest; the answer comes at once then.
    """

    messages: list[Delivery]
    acks: AckOutcome | None = Field(default=None, description="of the acks that the poll carried")
    lost: list[Lost] | None = None
    restores: int | None = None


class OpenMessage(Model):
    """What names a message: keys are unique per sender."""

    sender: str
    idempotency_key: str = Field(description="in lower case")


class OpenMessages(Model):
    """Messages that may still be handed over to the agent that asks: waiting for it, in its hands, or dead and not
    resolved. `next` continues."""

    messages: list[OpenMessage]
    next: int | None
    forgotten_before: str = Field(description="older messages, and their keys with them, may have been forgotten")


class IntegrityView(Model):
    """How far every page of the store has been read; `scan` is `on`, or `off: ` and why."""

    scan: str
    last_full_scan: str | None
    progress: float
    pages: int


class LogView(Model):
    """The store's log: how long its file is, and how much of it could not be brought into the store, as far as there
    was a reason to try: because somebody reads the store, or the disk fails."""

    bytes: int
    stuck_bytes: int


class RepairView(Model):
    """What a repair of a damaged store is doing now, and how much of that is done, from 0 to 1."""

    doing: str
    progress: float


class AdapterHealth(Model):
    """Readiness: 200 only when the store is open, checked and takes writes."""

    status: Literal["ready", "not-ready"]
    pid: int
    reason: str | None = None
    sqlite_version: str
    sqlite_verdict: str = Field(description="`safe`, or `unsafe: ` and why")
    log: LogView
    integrity: IntegrityView = Field(description="the reading of every page in the background")
    repair: RepairView | None = Field(default=None, description="null unless the store is damaged and being repaired")
    page_checksums: str = Field(description="`on`, or `off: ` and why")
    backups: BackupState = Field(description="copies of the store, verified")
    queues: dict[str, int] = Field(description="messages that wait for each agent or are in its hands")
    last_seen: dict[str, str | None] = Field(description="when each agent polled last, or null if it never did")
    governor_unread: int | None = Field(
        description="messages in the Human Governor's inbox that no human has read; null while the store is not open"
    )
    warnings: list[str] = Field(description="what a human should mend; it keeps no message from being taken")


class Liveness(Model):
    """The process answers."""

    status: Literal["alive"]
    pid: int


class InboxMessage(Model):
    """One message to the Human Governor: `queued` or `leased` until a human has read it, then `acked`."""

    status: Literal["queued", "leased", "acked", "dead"]
    envelope: StoredEnvelope


class InboxPage(Model):
    """The oldest first. `next` continues a page that was cut."""

    messages: list[InboxMessage]
    next: int | None


class ReadRequest(Model):
    """A human has read these messages, named by their sequences in `@human-governor`."""

    sequences: Annotated[list[Sequence], Field(min_length=1, max_length=1_000)]


class ReadAnswer(Model):
    """`missing` are those that are not in the inbox: there is no such message, or it died before anybody read it."""

    read: list[int]
    missing: list[int]
