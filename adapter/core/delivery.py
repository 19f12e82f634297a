"""The state machine of one delivery: one message on its way to one recipient.

This file owns the states and the table of transitions. What is not in the table is illegal and raises.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, Optional


class State(IntEnum):
    """The rung a delivery has reached. The numbers are stored."""

    QUEUED = 0
    LEASED = 1
    ACKED = 2
    DEAD = 3

    @property
    def word(self) -> str:
        """The name on the wire."""
        return self.name.lower()


class Event(StrEnum):
    """What can happen to a delivery."""

    LEASE = "lease"  # handed to its recipient
    ACK = "ack"  # processed
    RELEASE = "release"  # given back, free of charge
    FAIL = "fail"  # failed or lapsed, attempts are left
    EXHAUST = "exhaust"  # failed or lapsed for the last time
    REFUSE = "refuse"  # the recipient will never take it
    EXPIRE = "expire"  # its time ran out while it waited
    EVICT = "evict"  # pushed out of a full queue
    REMOVE = "remove"  # its recipient is no agent any more
    REPLAY = "replay"  # to be tried again, as somebody decided


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.QUEUED, Event.LEASE): State.LEASED,
    (State.QUEUED, Event.EXPIRE): State.DEAD,
    (State.QUEUED, Event.EVICT): State.DEAD,
    (State.QUEUED, Event.REMOVE): State.DEAD,
    (State.LEASED, Event.ACK): State.ACKED,
    (State.LEASED, Event.RELEASE): State.QUEUED,
    (State.LEASED, Event.FAIL): State.QUEUED,
    (State.LEASED, Event.EXHAUST): State.DEAD,
    (State.LEASED, Event.REFUSE): State.DEAD,
    (State.LEASED, Event.REMOVE): State.DEAD,
    (State.DEAD, Event.REPLAY): State.QUEUED,
}

REASONS: Final[dict[Event, str]] = {
    Event.EXHAUST: "max-attempts",
    Event.REFUSE: "refused",
    Event.EXPIRE: "expired",
    Event.EVICT: "overflow",
    Event.REMOVE: "refused",
}
"""Why a delivery is dead, by the event that killed it (promise 6)."""


class Waiting(NamedTuple):
    """A delivery to which nothing has happened since it was queued: the first fields of `Delivery`, which are all that
    there is to know of it."""

    message_id: int
    recipient: str
    order_key: int
    critical: bool
    expires_at_us: int | None


@dataclass(slots=True, eq=False)
class Delivery:
    """One message for one recipient. Times are steady microseconds.

    `handovers` counts leases, `failures` those that were lost or failed; only failures spend the budget. `cycles`
    counts deaths; a replay starts the next cycle, in which failures are counted from nought. `solo` asks
    for a hand-over of its own, after one that ended in silence. `before` and `after` are its neighbours in the line
    of its order key; `batch` is the number of the hand-over that leased it, and `stored` tells that it has a row.
    """

    message_id: int
    recipient: str
    order_key: int
    critical: bool = False
    expires_at_us: int | None = None
    state: State = State.QUEUED
    handovers: int = 0
    failures: int = 0
    solo: bool = False
    token: str | None = None
    lease_until_us: int = 0
    not_before_us: int = 0
    reason: str | None = None
    detail: str | None = None
    result: bytes | None = None
    before: Optional["Delivery"] = field(default=None, repr=False)
    after: Optional["Delivery"] = field(default=None, repr=False)
    batch: int = 0
    cycles: int = 0
    stored: bool = False

    @property
    def waiting(self) -> Waiting | None:
        """All of it, where nothing has happened to it yet."""
        if self.state is not State.QUEUED or self.handovers or self.cycles:
            return None
        return Waiting(self.message_id, self.recipient, self.order_key, self.critical, self.expires_at_us)

    def move(self, event: Event) -> None:
        """Take the transition of `event`; an illegal one raises `ValueError` and changes nothing."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            raise ValueError(f"a {self.state.word} delivery cannot {event}")
        self.state = target
        self.reason = REASONS.get(event)
        self.cycles += target is State.DEAD

    def same_hand_over(self, other: "Delivery") -> bool:
        """Whether both were last handed out by one poll. Tokens end with its name, which a restart keeps."""
        mine, its = self.token or "", other.token or ""
        return mine.rpartition(".")[2] == its.rpartition(".")[2]

    def holds(self, token: str) -> bool:
        """Whether `token` is that of the lease it is under now."""
        return self.state is State.LEASED and self.token == token
