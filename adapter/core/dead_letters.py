"""Dead letters: one record for each message and recipient, however often it dies (promise 6).

A record is open from the death until it is replayed, resolved or replaced, and opens again when a replayed delivery
dies again. Its history keeps the newest cycles; `cycles` counts all of them.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from adapter.core.delivery import Delivery

HISTORY_CYCLES_MAX: Final = 10
"""Deaths that are told in full: with a reason of the longest kind each, a record stays below 50 KB."""

Closure = Literal["replayed", "resolved", "resent"]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which open dead letters; None is any. `before_us` is wall time: what died at it or later is left out."""

    recipient: str | None = None
    reason: str | None = None
    before_us: int | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """One death: why, in whose words, after how many hand-overs in all and failures in this cycle, and when (wall)."""

    reason: str
    detail: str | None
    handovers: int
    failures: int
    died_at_us: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record of one delivery that died. `closure` is None while somebody must decide.

    `replaced_by` is the place, channel and sequence, of the message that was sent in its stead.
    """

    message_id: int
    recipient: str
    cycles: int
    history: tuple[Cycle, ...]
    closure: Closure | None = None
    closed_at_us: int | None = None
    note: str | None = None
    replaced_by: tuple[str, int] | None = None

    @property
    def last(self) -> Cycle:
        """The newest death."""
        return self.history[-1]


def buried(delivery: Delivery, earlier: DeadLetter | None, wall_us: int) -> DeadLetter:
    """The record after the death of `delivery`; `earlier` is the one of its death before, if there was one."""
    cycle = Cycle(delivery.reason or "", delivery.detail, delivery.handovers, delivery.failures, wall_us)
    history = () if earlier is None else earlier.history
    kept = (*history, cycle)[-HISTORY_CYCLES_MAX:]
    return DeadLetter(delivery.message_id, delivery.recipient, delivery.cycles, kept)


def closed(
    letter: DeadLetter,
    closure: Closure,
    wall_us: int,
    note: str | None = None,
    replaced_by: tuple[str, int] | None = None,
) -> DeadLetter:
    """The record once it is dealt with."""
    return replace(letter, closure=closure, closed_at_us=wall_us, note=note, replaced_by=replaced_by)


def history_document(history: tuple[Cycle, ...]) -> list[dict[str, Any]]:
    """The history as plain values, oldest first, as it is stored."""
    return [{name: getattr(cycle, name) for name in Cycle.__slots__} for cycle in history]


def read_history(document: list[dict[str, Any]]) -> tuple[Cycle, ...]:
    """What `history_document` made."""
    return tuple(Cycle(**cycle) for cycle in document)
