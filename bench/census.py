"""The count after a workload: what was received must be what was sent. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_SHOWN_MAX: Final = 5
"""Examples of one kind of fault that are named; the rest is counted."""

Place = tuple[str, int]
"""Channel and sequence."""


@dataclass(slots=True)
class Census:
    """Sends as they were answered, and messages as each recipient got them, in order."""

    sent: dict[str, Place] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    received: dict[str, list[tuple[str, Place]]] = field(default_factory=dict)

    def answered(self, key: str, code: int, place: Place) -> None:
        """A send got its answer. Only 201 means that this very send was stored now."""
        if code == 201 and key not in self.sent:
            self.sent[key] = place
        else:
            self.refused.append(f"send {key} was answered {code}")

    def arrived(self, recipient: str, key: str, place: Place) -> None:
        """A recipient acknowledged a message."""
        self.received.setdefault(recipient, []).append((key, place))

    def faults(self, recipients: Iterable[str]) -> list[str]:
        """What is wrong; every one of `recipients` should have got every message."""
        found = _some(self.refused)
        found += _some(_holes(self.sent.values()))
        for recipient in recipients:
            found += self._faults_of(recipient)
        return found

    def _faults_of(self, recipient: str) -> list[str]:
        arrived = self.received.get(recipient, [])
        keys = [key for key, _ in arrived]
        missing = self.sent.keys() - set(keys)
        found = _some([f"{recipient} never got {key} at {self.sent[key]}" for key in sorted(missing)])
        found += _some([f"{recipient} got {key}, which nobody sent" for key in keys if key not in self.sent])
        if len(keys) != len(set(keys)):
            found.append(f"{recipient} got {len(keys) - len(set(keys))} messages more than once")
        found += _some([f"{recipient} got {key} at {at}" for key, at in arrived if self.sent.get(key, at) != at])
        return found + [f"{recipient} got messages of {channel} out of order" for channel in _disordered(arrived)]


def enter_queued(census: Census, queued: Mapping[str, Sequence[str]], recipient: str) -> list[str]:
    """Enter sends that went to outboxes, whose answers named no place, at the places where they arrived.

    `queued` has the keys of each sender in the order in which they were taken. Gives what never arrived, and who sent
    in another order.
    """
    found = []
    places = dict(census.received.get(recipient, ()))
    for sender, keys in queued.items():
        found += _some([f"{recipient} never got {key} of {sender}" for key in keys if key not in places])
        arrived = [key for key in keys if key in places]
        for key in arrived:
            census.answered(key, 201, places[key])
        if (order := [places[key] for key in arrived]) != sorted(order):
            found.append(f"{recipient} got messages of {sender} in another order than they were sent")
    return found


def _holes(places: Iterable[Place]) -> list[str]:
    """Each channel's sequences must be contiguous: nobody else sends while a workload runs."""
    by_channel: dict[str, list[int]] = {}
    for channel, sequence in places:
        by_channel.setdefault(channel, []).append(sequence)
    found = []
    for channel, sequences in by_channel.items():
        first, last = min(sequences), max(sequences)
        if len(set(sequences)) != len(sequences) or last - first + 1 != len(sequences):
            found.append(f"{len(sequences)} sends to {channel} got the sequences {first} to {last}")
    return found


def _disordered(arrived: list[tuple[str, Place]]) -> list[str]:
    newest: dict[str, int] = {}
    found: dict[str, None] = {}
    for _, (channel, sequence) in arrived:
        if sequence <= newest.get(channel, 0):
            found[channel] = None
        newest[channel] = sequence
    return list(found)


def _some(faults: list[str]) -> list[str]:
    rest = len(faults) - _SHOWN_MAX
    return faults if rest <= 0 else [*faults[:_SHOWN_MAX], f"... and {rest} more like the last"]
