"""What is too old to keep (promise 15). Pure: ages by channel and class, and what a batch of a scan comes to.

Each channel is scanned apart for each class, oldest first, from a floor below which nothing of that class is left to
look at. Receipt times grow with sequences, so a scan ends at the first message that is too young. What is due but must
stay (somebody has not received it, or has not decided about its death) is put on a list of its own, which is looked
through in every pass, so that the floor can pass it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BATCH_ROWS: Final = 64
"""Messages of one batch: a millisecond of the writer's time, or less."""

BATCH_BYTES: Final = 512 * 1024
"""Envelopes of one batch, though always one: a large one is spread over many pages, each of which is freed apart."""


class Lane(NamedTuple):
    """What is scanned together: the messages of a channel whose contracts say to keep them, or the others."""

    channel: str
    contract: bool


@dataclass(frozen=True, slots=True)
class Retained:
    """A stored message, as retention sees it. `in_use`: a delivery of it is live, or a dead letter of it open."""

    message_id: int
    channel: str
    contract: bool
    sequence: int
    accepted_at_us: int
    size: int
    in_use: bool


@dataclass(frozen=True, slots=True)
class Ages:
    """How long messages are kept, and those whose contracts say so; None is for ever."""

    message_us: int | None
    contract_us: int | None

    def of(self, *, contract: bool) -> int | None:
        """The age of a class."""
        return self.contract_us if contract else self.message_us


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Ages, by channel where they differ. Nothing is looked at where `check_us` is 0.

    `agree_us` is how long the wall clock must have agreed with the steady one to be believed after a jump.
    """

    default: Ages
    channels: Mapping[str, Ages]
    check_us: int
    agree_us: int

    def cutoff_us(self, lane: Lane, time_us: int) -> int | None:
        """What was received before it is too old; None where nothing ever is."""
        age_us = self.channels.get(lane.channel, self.default).of(contract=lane.contract)
        return None if age_us is None else time_us - age_us

    def lanes(self, channels: Iterable[str]) -> list[Lane]:
        """What there is to scan."""
        every = (Lane(channel, contract) for channel in channels for contract in (False, True))
        return [lane for lane in every if self.cutoff_us(lane, 0) is not None]


@dataclass(slots=True)
class Batch:
    """What becomes of a part of a scan. `position` is how far it came; `more` whether there may be more to do.

    `newest_us` is the newest receipt time of what goes, 0 where nothing does.
    """

    position: int
    more: bool = True
    prune: list[int] = field(default_factory=list)
    hold: list[int] = field(default_factory=list)
    newest_us: int = 0

    def let_go(self, row: Retained) -> None:
        """This one goes."""
        self.prune.append(row.message_id)
        self.newest_us = max(self.newest_us, row.accepted_at_us)


def scan(lane: Lane, cutoff_us: int, floor: int, rows: Sequence[Retained]) -> Batch:
    """What becomes of the messages that follow the floor, `BATCH_ROWS` of them unless there are no more."""
    batch, size = Batch(floor), 0
    for row in rows:
        if row.accepted_at_us >= cutoff_us:
            batch.more = False
            return batch
        if row.contract == lane.contract and row.in_use:
            batch.hold.append(row.message_id)
        elif row.contract == lane.contract:
            size += row.size
            if batch.prune and size > BATCH_BYTES:
                return batch
            batch.let_go(row)
        batch.position = row.sequence
    batch.more = len(rows) == BATCH_ROWS
    return batch


def sweep(policy: RetentionPolicy, time_us: int, after: int, rows: Sequence[Retained]) -> Batch:
    """What becomes of those that were held, from the message after `after` on: the released ones go."""
    batch, size = Batch(after), 0
    for row in rows:
        cutoff_us = policy.cutoff_us(Lane(row.channel, row.contract), time_us)
        if not row.in_use and cutoff_us is not None and row.accepted_at_us < cutoff_us:
            size += row.size
            if batch.prune and size > BATCH_BYTES:
                return batch
            batch.let_go(row)
        batch.position = row.message_id
    batch.more = len(rows) == BATCH_ROWS
    return batch
