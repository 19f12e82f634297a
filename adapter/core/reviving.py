"""What is decided about one of the dead: replayed or resolved. Part of the exchange, for its mailboxes.

A replayed delivery re-joins the line of its order key at its original place, that of its message: ahead of every
later one that is not handed out. What was handed out or acked meanwhile is not called back, neither now nor when
the replayed one fails.
"""

from collections.abc import Mapping
from typing import Final

from adapter.core.books import Books, Decide
from adapter.core.changes import Changes, Place
from adapter.core.commands import Replay, Resolve, Settled
from adapter.core.dead_letters import DeadLetter
from adapter.core.delivery import Delivery, State
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.limits import REASON_CHARS_MAX
from shared.problems import Problem

RETRY_AFTER_FULL_SECONDS: Final = 5.0


class Reviving:
    """Decides on dead letters."""

    def __init__(self, books: Books) -> None:
        self._mailboxes = books.mailboxes
        self._changes = books.changes
        self._policy = books.policy

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {Replay: self.replay, Resolve: self.resolve}

    def next_due_us(self) -> None:
        """See `Part`: what is decided is done at once."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""

    def replay(self, replay: Replay, store: StoreTransaction, now: Now) -> Settled:
        """Queue it again, with a fresh budget.

        Raises `not-dead`, `not-found`, `expired`, `queue-full`, or `unknown-recipient` for an agent that was removed.
        """
        delivery, letter = open_letter((replay.message_id, replay.recipient), self._changes, store)
        if delivery.expires_at_us is not None and delivery.expires_at_us <= now.steady_us:
            raise Problem("expired", "Its time has passed: it would die again. Resolve it, or send it anew.")
        mailbox = self._mailboxes.get(replay.recipient)
        if mailbox is None:
            detail = f"{replay.recipient!r} is no agent any more. Resolve it, or replay it once that is one again."
            raise Problem("unknown-recipient", detail)
        limits, depth = self._policy.queue, mailbox.depth
        if depth >= limits.queue_max + (limits.critical_reserve if delivery.critical else 0):
            detail = f"The queue of {replay.recipient!r} holds {depth} messages, and a replay evicts none; retry later."
            raise Problem("queue-full", detail, retry_after=RETRY_AFTER_FULL_SECONDS)
        mailbox.revive(delivery)
        self._changes.touch(store, now, delivery)
        self._changes.close(letter, "replayed", now)
        return Settled(delivery.state.word)

    def resolve(self, resolve: Resolve, store: StoreTransaction, now: Now) -> Settled:
        """It stays dead, and nobody needs to look at it again. Raises `not-dead` or `not-found`."""
        delivery, letter = open_letter((resolve.message_id, resolve.recipient), self._changes, store)
        self._changes.close(letter, "resolved", now, resolve.note[:REASON_CHARS_MAX] if resolve.note else None)
        return Settled(delivery.state.word)


def open_letter(
    place: Place, changes: Changes, store: StoreTransaction, field: str | None = None
) -> tuple[Delivery, DeadLetter]:
    """A dead delivery that somebody must decide about. Raises `not-dead` or `not-found`, which blame `field`."""
    delivery = changes.delivery(place, store)
    if delivery is None:
        raise Problem("not-found", f"That message was not for {place[1]!r}.", field=field)
    letter = changes.letter(place, store) if delivery.state is State.DEAD else None
    if letter is None:
        raise Problem("not-dead", f"It is {delivery.state.word}; nothing was changed.", field=field)
    if letter.closure is not None:
        raise Problem("not-dead", f"It was {letter.closure} already; nothing was changed.", field=field)
    return delivery, letter
