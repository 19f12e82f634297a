"""What a group of commands has changed, until it is stored with the group: deliveries and dead letters."""

from adapter.core.alarms import Alarm
from adapter.core.dead_letters import Closure, DeadLetter, buried, closed
from adapter.core.delivery import Delivery, State
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction

Place = tuple[int, str]
"""A message's number, and one of its recipients."""


class Changes:
    """The deliveries and dead letters that the present group has touched. The store has what it has not.

    `deaths` are those of this group with their reasons, `closures` the dead letters that were dealt with, and `alarms`
    what else somebody must hear of, even where the command that raised it was refused.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the last group."""
        self.deliveries: dict[Place, Delivery] = {}
        self.letters: dict[Place, DeadLetter] = {}
        self.deaths: list[tuple[Place, str]] = []
        self.closures = 0
        self.alarms: list[Alarm] = []

    def touch(self, store: StoreTransaction, now: Now, *deliveries: Delivery) -> None:
        """Note what was changed; of what died, the record is made here, so in the same transaction."""
        for delivery in deliveries:
            place = delivery.message_id, delivery.recipient
            earlier_object = self.deliveries.get(place)
            if earlier_object is not None:  # packed since, and come up as another
                delivery.stored = earlier_object.stored
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
        self.closures += 1

    def save(self, store: StoreTransaction) -> None:
        """Store it all."""
        if self.deliveries:
            store.save_deliveries(self.deliveries.values())
        if self.letters:
            store.save_dead_letters(self.letters.values())
