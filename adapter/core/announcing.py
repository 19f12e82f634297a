"""Announcing: deaths are counted, and what the adapter has to say about them is sent when it is due. Part of the
exchange."""

from collections.abc import Callable, Mapping
from typing import Final

from adapter.core.alerts import PendingAlerts, Subject, dead_letter_alert, is_alert
from adapter.core.books import Books, Decide
from adapter.core.commands import Send, Snapshot
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.routing import PLATFORM

Announce = Callable[[Send, StoreTransaction, Now], None]
_NONE: Final[Mapping[type, Decide]] = {}


class Announcing:
    """Speaks on `platform`; where there is no such channel, nobody is told."""

    def __init__(self, books: Books, snapshot: Snapshot, announce: Announce, now: Now) -> None:
        self._books = books
        self._announce = announce
        self._pending = PendingAlerts(books.policy.alert_window_us, snapshot.alert_counts, now.steady_us)

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return _NONE

    def next_due_us(self) -> int | None:
        """See `Part`."""
        return self._pending.next_due_us() if self._speaks else None

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        if self._speaks:
            for subject, count in self._pending.take_due(now.steady_us).items():
                self._books.changes.counts[subject] = 0
                alert = dead_letter_alert(subject, count, self._books.places.last_message_id + 1)
                self._announce(alert, store, now)

    def count_deaths(self, store: StoreTransaction, now: Now) -> None:
        """Count what has died in this group; the counts are stored with it. Dead alerts do not count."""
        changes = self._books.changes
        if not changes.deaths or not self._speaks:
            return
        envelopes = store.envelopes(list({message_id for (message_id, _), _ in changes.deaths}))
        alerts = {message_id for message_id, envelope in envelopes.items() if is_alert(envelope)}
        for (message_id, recipient), reason in changes.deaths:
            if message_id not in alerts:
                subject: Subject = recipient, reason
                changes.counts[subject] = self._pending.count(subject, now.steady_us)

    @property
    def _speaks(self) -> bool:
        return self._books.policy.alert_window_us > 0 and PLATFORM in self._books.topology.members
