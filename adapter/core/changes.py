"""What a group of commands has changed, until it is stored with the group: deliveries, dead letters, alert counts."""

from adapter.core.alerts import PendingAlerts, Subject, is_alert
from adapter.core.dead_letters import Closure, DeadLetter, buried, closed
from adapter.core.delivery import Delivery, State
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction

Place = tuple[int, str]
"""A message's number, and one of its recipients."""


class Changes:
    """The deliveries and dead letters that the present group has touched. The store has what it has not."""

    def __init__(self, alerts: PendingAlerts | None) -> None:
        self._alerts = alerts
        self.clear()

    def clear(self) -> None:
        """Forget the last group."""
        self.deliveries: dict[Place, Delivery] = {}
        self.letters: dict[Place, DeadLetter] = {}
        self.counts: dict[Subject, int] = {}
        self._deaths: list[tuple[Place, str]] = []

    def touch(self, store: StoreTransaction, now: Now, *deliveries: Delivery) -> None:
        """Note what was changed; of what died, the record is made here, so in the same transaction."""
        for delivery in deliveries:
            place = delivery.message_id, delivery.recipient
            self.deliveries[place] = delivery
            if delivery.state is State.DEAD:
                earlier = self.letter(place, store) if delivery.cycles > 1 else None
                self.letters[place] = buried(delivery, earlier, now.wall_us)
                self._deaths.append((place, delivery.reason or ""))

    def delivery(self, place: Place, store: StoreTransaction) -> Delivery | None:
        """The delivery as it is now, live or not."""
        return self.deliveries.get(place) or store.find_delivery(*place)

    def letter(self, place: Place, store: StoreTransaction) -> DeadLetter | None:
        """The record as it is now."""
        return self.letters.get(place) or store.find_dead_letter(*place)

    def close(self, letter: DeadLetter, closure: Closure, now: Now, note: str | None = None) -> None:
        """A record is dealt with."""
        self.letters[letter.message_id, letter.recipient] = closed(letter, closure, now.wall_us, note)

    def save(self, store: StoreTransaction, now: Now) -> None:
        """Store it all."""
        if self._deaths and self._alerts is not None:
            self._count_deaths(self._alerts, store, now)
        if self.deliveries:
            store.save_deliveries(self.deliveries.values())
        if self.letters:
            store.save_dead_letters(self.letters.values())
        if self.counts:
            store.save_alert_counts(self.counts)

    def _count_deaths(self, alerts: PendingAlerts, store: StoreTransaction, now: Now) -> None:
        envelopes = store.envelopes(list({message_id for (message_id, _), _ in self._deaths}))
        told = {message_id for message_id, envelope in envelopes.items() if is_alert(envelope)}
        for (message_id, recipient), reason in self._deaths:
            if message_id not in told:
                subject = recipient, reason
                self.counts[subject] = alerts.count(subject, now.steady_us)
