"""What can be asked of the exchange, and what it answers. Plain values: they cross from the loop to the writer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from adapter.core.alarms import Alarm
from adapter.core.appointment import Appointment
from adapter.core.dead_letters import Filter
from adapter.core.delivery import Delivery, Waiting
from adapter.core.losses import NO_LOSSES, Losses
from adapter.core.membership import NOBODY, FileState, Standing, TopologyVersion
from adapter.core.replay_job import ReplayJob
from adapter.core.retention import Lane
from adapter.core.tallies import Tally
from shared.config import Membership
from shared.topology import TopologyChange


@dataclass(frozen=True, slots=True)
class Send:
    """An envelope that passed every check that needs no store. `expires_at_us` is the wall time of its end, from what
    the sender wrote.

    `rate_class` is whose rate it counts against. `deliver_at_us` is the wall time before which it is not to be sent.
    """

    envelope: dict[str, Any]
    sender: str
    idempotency_key: bytes
    content_sha256: bytes
    channel: str
    order_key: int
    critical: bool
    rate_class: str
    keep_forever: bool
    expires_at_us: int | None
    deliver_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Sends of one request, in their sender's order: after one that must be tried again, none is taken."""

    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Hand `count` messages to `recipient`; with `park`, remember the ticket until there is one.

    `poll_id` becomes part of the tokens, so that a later claim can name this one among its `lost`.
    """

    recipient: str
    count: int
    ticket: int
    park: bool
    poll_id: str = ""
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpark:
    """The poll with this ticket no longer waits."""

    recipient: str
    ticket: int


@dataclass(frozen=True, slots=True)
class Ack:
    """These hand-overs are processed, with the result of each that has one."""

    recipient: str
    delivery_ids: tuple[str, ...]
    results: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Nack:
    """This hand-over is not processed. `mode` is `release`, `fail` or `refuse`."""

    recipient: str
    delivery_id: str
    mode: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """An answer did not reach its receiver: its hand-overs come back free; those settled since are left alone."""

    recipient: str
    delivery_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extend:
    """The leases of these hand-overs end `seconds_us` from now."""

    recipient: str
    delivery_ids: tuple[str, ...]
    extension_us: int


@dataclass(frozen=True, slots=True)
class Replay:
    """This dead delivery is to be tried again, from its first attempt."""

    message_id: int
    recipient: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """This dead delivery is dealt with by other means; `note` says how."""

    message_id: int
    recipient: str
    note: str | None


@dataclass(frozen=True, slots=True)
class StartReplay:
    """The dead letters that match are to be tried again, `rate` a second, `limit` in all; None is without bound.

    A job is known by its `id`, which its caller makes.
    """

    id: str
    wanted: Filter
    rate: float | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class CancelReplay:
    """This job is to end where it is."""

    id: str


@dataclass(frozen=True, slots=True)
class MarkRead:
    """The Human Governor has read these messages."""

    message_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CancelScheduled:
    """This scheduled send is not to be sent."""

    sender: str
    idempotency_key: bytes


@dataclass(frozen=True, slots=True)
class Announced:
    """The messages to the Human Governor up to this sequence were told of in this way; None only asks how far it is."""

    way: str
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class RaiseAlarm:
    """Somebody must hear of this, which happened outside the exchange."""

    alarm: Alarm


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: leases may have lapsed, waiting deliveries may be ready or expired, alerts due."""


@dataclass(frozen=True, slots=True)
class ProposeTopology:
    """A change of members, for a human to decide on."""

    proposer: str
    change: TopologyChange
    reason: str


@dataclass(frozen=True, slots=True)
class DecideTopology:
    """A human's decision on a proposed version. One that is approved is in force with this commit."""

    version: int
    approve: bool
    decider: str
    note: str | None


@dataclass(frozen=True, slots=True)
class TakeFile:
    """An adapter starts, and its file says this."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class NoteWritten:
    """The file says what this version says."""

    version: int


_OfTheDead = Replay | Resolve | StartReplay | CancelReplay
_OfHumans = ProposeTopology | DecideTopology | TakeFile | NoteWritten | MarkRead | Announced
_OfASender = Send | SendBatch | CancelScheduled
_OfTime = Tick | RaiseAlarm
Command = _OfASender | Claim | Unpark | Ack | Nack | GiveBack | Extend | _OfTheDead | _OfHumans | _OfTime


@dataclass(frozen=True, slots=True)
class RecipientReport:
    """How far a message got with one recipient."""

    agent: str
    status: str
    reason: str | None
    unread: int
    last_seen_us: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A send is committed; `duplicate` when it had been before."""

    duplicate: bool
    channel: str
    sequence: int
    accepted_at_us: int
    recipients: tuple[RecipientReport, ...]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A send is committed to the timetable; `duplicate` when it had been before."""

    duplicate: bool
    deliver_at_us: int


@dataclass(frozen=True, slots=True)
class HandedOver:
    """One message in its receiver's hands."""

    delivery_id: str
    attempt: int
    lease_until_us: int
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a nacked, replayed or resolved delivery went, or a scheduled send."""

    status: str


@dataclass(frozen=True, slots=True)
class Extended:
    """The new end of the leases."""

    lease_until_us: int


@dataclass(frozen=True, slots=True)
class FileTaken:
    """How the file stood to the store, and the version that is in force now."""

    state: FileState
    version: TopologyVersion


@dataclass(frozen=True, slots=True)
class StoredSend:
    """What the store remembers of a send by its key."""

    message_id: int
    content_sha256: bytes
    channel: str
    sequence: int
    accepted_at_us: int


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored: the command, its place, and the bytes that receivers get."""

    message_id: int
    sequence: int
    accepted_at_us: int
    send: Send
    envelope: bytes


@dataclass(frozen=True, slots=True)
class ScheduledSend:
    """A send that waits for its time, or has failed at it, for a `reason` that is a kind of problem."""

    appointment: Appointment
    send: Send
    accepted_at_us: int
    reason: str | None = None
    detail: str | None = None


@dataclass(slots=True)
class Snapshot:
    """What the exchange needs to know of the store when it starts.

    `live` are the live deliveries in commit order, read once, while the transaction of the snapshot is open.
    `floors` are how far retention has come, `trusted_us` the wall time it trusted last, None before the first, and
    `forgotten_us` before when messages were forgotten: they and their keys are gone.
    `topologies` are the open proposals, and the versions that were in force since the file was last known to say one,
    in their order; `last_topology` is the newest number of all.
    """

    last_message_id: int
    last_accepted_at_us: int
    sequences: dict[str, int]
    live: Iterable[Delivery | Waiting]
    floors: dict[Lane, int] = field(default_factory=dict)
    trusted_us: int | None = None
    forgotten_us: int = 0
    tallies: dict[Alarm, Tally] = field(default_factory=dict)
    open_dead_letters: int = 0
    announced: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, int] = field(default_factory=dict)
    replays: list[ReplayJob] = field(default_factory=list)
    topologies: list[TopologyVersion] = field(default_factory=list)
    last_topology: int = 0
    appointments: list[Appointment] = field(default_factory=list)
    losses: Losses = NO_LOSSES

    @property
    def applied(self) -> list[TopologyVersion]:
        """Without the open proposals; the last one is in force."""
        return [version for version in self.topologies if version.standing is not Standing.PROPOSED] or [NOBODY]
