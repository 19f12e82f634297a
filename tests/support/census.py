"""What a store that nobody has open holds: every message by its place, and what became of it for each recipient."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.store_hand import as_sent, reading

_LIVE = ("queued", "leased")
_STATES = ("queued", "leased", "acked", "dead")


class Census(NamedTuple):
    """Envelopes by channel and sequence, and states by channel, sequence and recipient."""

    messages: dict[tuple[str, int], bytes]
    deliveries: dict[tuple[str, int, str], str]

    def faults_of(self, later: "Census") -> Iterator[str]:
        """What `later`, the same store after a repair, has lost or made up. A delivery may come again, never vanish."""
        for place, envelope in self.messages.items():
            if later.messages.get(place) != envelope:
                yield f"message {place} is not what it was"
        for place, state in self.deliveries.items():
            found = later.deliveries.get(place)
            if found is None:
                yield f"the delivery {place} is gone"
            elif state in _LIVE and found not in _LIVE:
                yield f"the delivery {place} was {state} and is {found}"
            elif state == "dead" and found == "acked":
                yield f"the delivery {place} was dead and is acked"
        yield from (f"the delivery {place} is new" for place in later.deliveries.keys() - self.deliveries.keys())


def take_census(path: Path) -> Census:
    """Count without the adapter's code."""
    with reading(path) as db:
        messages = db.execute(
            "SELECT c.name, m.sequence, m.envelope FROM messages AS m JOIN channels AS c ON c.id = m.channel_id"
        )
        found = {(channel, sequence): as_sent(envelope) for channel, sequence, envelope in messages}
        rows = db.execute(
            "SELECT c.name, m.sequence, a.name, d.state FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id "
            "JOIN channels AS c ON c.id = m.channel_id JOIN agents AS a ON a.id = d.recipient_id"
        )
        return Census(found, {(channel, sequence, agent): _STATES[state] for channel, sequence, agent, state in rows})
