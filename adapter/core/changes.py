"""What a group of commands has changed, until it is stored with the group: deliveries, dead letters, alert counts."""

from adapter.core.alarms import Alarm
from adapter.core.dead_letters import Closure, DeadLetter, buried, closed
from adapter.core.delivery import Delivery, State
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction

Place = tuple[int, str]
"""A message's number, and one of its recipients."""


class Changes:
    """The deliveries and dead letters that the present group has touched. The store has what it has not.

    `deaths` are those of this group with their reasons, and `counts` the deaths by agent and reason that no alert has
    told, of those subjects where the number has changed. `alarms` is what else somebody must hear of.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the last group."""
        self.deliveries: dict[Place, Delivery] = {}
        self.letters: dict[Place, DeadLetter] = {}
        self.deaths: list[tuple[Place, str]] = []
        self.counts: dict[tuple[str, str], int] = {}
        self.alarms: list[Alarm] = []

    def touch(self, store: StoreTransaction, now: Now, *deliveries: Delivery) -> None:
        """Note what was changed; of what died, the record is made here, so in the same transaction."""
        for delivery in deliveries:
            place = delivery.message_id, delivery.recipient
            self.deliveries[place] = delivery
            if delivery.state is State.DEAD:
                earlier = self.letter(place, store) if delivery.cycles > 1 else None
                self.letters[place] = buried(delivery, earlier, now.wall_us)
                self.deaths.append((place, delivery.reason or ""))

    def delivery(self, place: Place, store: StoreTransaction) -> Delivery | None:
        """The delivery as it is now, live or not."""
        return self.deliveries.get(place) or store.find_delivery(*place)

    def letter(self, place: Place, store: StoreTransaction) -> DeadLetter | None:
        """The record as it is now."""
        return self.letters.get(place) or store.find_dead_letter(*place)

    def close(
        self,
        letter: DeadLetter,
        closure: Closure,
        now: Now,
        note: str | None = None,
        replaced_by: tuple[str, int] | None = None,
    ) -> None:
        """A record is dealt with."""
        done = closed(letter, closure, now.wall_us, note, replaced_by)
        self.letters[letter.message_id, letter.recipient] = done

    def save(self, store: StoreTransaction) -> None:
        """Store it all."""
        if self.deliveries:
            store.save_deliveries(self.deliveries.values())
        if self.letters:
            store.save_dead_letters(self.letters.values())
        if self.counts:
            store.save_alert_counts(self.counts)
