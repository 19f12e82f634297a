"""Which message each hand-over was: agents speak of them by delivery id only."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

HANDED_MAX: Final = 10_000
"""Hand-overs remembered: 20 times what an agent's queue holds (500), and about 2 MB."""


class HandedOut(Generic[Key]):
    """The hand-overs of this process, oldest forgotten first, and for each message which of them is the newest."""

    def __init__(self, entries_max: int = HANDED_MAX) -> None:
        self._entries_max = entries_max
        self._keys: OrderedDict[str, Key] = OrderedDict()
        self._newest: dict[Key, str] = {}

    def add(self, delivery_id: str, key: Key) -> None:
        """The agent gets this message; earlier hand-overs of it have ended."""
        self._keys[delivery_id] = key
        self._newest[key] = delivery_id
        if len(self._keys) > self._entries_max:
            self.drop(next(iter(self._keys)))

    def drop(self, delivery_id: str) -> None:
        """The agent did not get it after all, or it was long ago."""
        key = self._keys.pop(delivery_id, None)
        if key is not None and self._newest.get(key) == delivery_id:
            del self._newest[key]

    def unknown(self, delivery_ids: Iterable[str]) -> list[str]:
        """Those that were no hand-overs of this process."""
        return [delivery_id for delivery_id in delivery_ids if delivery_id not in self._keys]

    def newest(self, delivery_ids: Iterable[str]) -> Mapping[str, Key]:
        """The messages of those that are the newest hand-over of theirs."""
        named = {each: self._keys[each] for each in delivery_ids if each in self._keys}
        return {each: key for each, key in named.items() if self._newest.get(key) == each}
