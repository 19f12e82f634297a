"""The Human Governor's inbox: what humans have read, and what they were told of. Part of the exchange.

A message is read, in any order, as others are processed: it is handed out and acked, here in one act.
"""

from collections.abc import Mapping

from adapter.core.books import Books, Decide
from adapter.core.commands import Announced, MarkRead, Snapshot
from adapter.core.delivery import State
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.names import GOVERNOR


class Inbox:
    """Decides on what a human has read."""

    def __init__(self, books: Books, snapshot: Snapshot) -> None:
        self._books = books
        self._announced = snapshot.announced

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {MarkRead: self.read, Announced: self.announce}

    def next_due_us(self) -> None:
        """See `Part`: humans have no deadline."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""

    def read(self, mark: MarkRead, store: StoreTransaction, now: Now) -> list[int]:
        """Those of the messages that are read now, whoever read them. A dead one is not, and neither is another's."""
        mailbox, changes = self._books.mailbox(GOVERNOR), self._books.changes
        read = []
        for message_id in mark.message_ids:
            delivery = mailbox.find(message_id) or changes.delivery((message_id, GOVERNOR), store)
            if delivery is None or delivery.state is State.DEAD:
                continue
            if delivery.state is not State.ACKED:
                mailbox.take(delivery)
                changes.touch(store, now, delivery)
            read.append(message_id)
        return read

    def announce(self, announced: Announced, store: StoreTransaction, _: Now) -> int | None:
        """Up to which sequence that way has told; None for one that never has. It does not go back."""
        mark = self._announced.get(announced.way)
        if announced.sequence is None or (mark is not None and mark >= announced.sequence):
            return mark
        self._announced[announced.way] = announced.sequence
        store.save_announced(announced.way, announced.sequence)
        return announced.sequence
