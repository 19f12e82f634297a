"""Which messages may be worked on now. Decisions only: no clock, no I/O.

This file owns the order rule of the agent's side. Messages of one order key form a lane, first come, first served, one
at a time. Lanes run beside each other, at most `concurrency` of them. Among lanes that could start, the one whose head
came first does, so that a concurrency of 1 is the order of arrival.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar


class Ordered(Protocol):
    """Anything with an order key."""

    @property
    def order_key(self) -> Hashable:
        """What it is in order with."""


T = TypeVar("T", bound=Ordered)


class Lanes(Generic[T]):
    """Messages that wait, and the keys that are being worked on."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._arrivals = itertools.count()
        self._lanes: dict[Hashable, deque[tuple[int, T]]] = {}
        self._startable: list[tuple[int, Hashable]] = []
        self._running: set[Hashable] = set()

    @property
    def has_room(self) -> bool:
        """Whether a worker is idle and nothing here could use it."""
        return len(self._running) < self._concurrency and not self._startable

    def is_last(self, key: Hashable) -> bool:
        """Whether nothing here could start, also once the running message of this key is settled."""
        return not self._startable and not self._lanes[key]

    def add(self, messages: Iterable[T]) -> None:
        """Put messages at the end of their lanes."""
        for message in messages:
            key = message.order_key
            lane = self._lanes.setdefault(key, deque())
            lane.append((next(self._arrivals), message))
            if len(lane) == 1 and key not in self._running:
                self._offer(key, lane)

    def start(self) -> T | None:
        """A message to work on now, or None. Its lane stands still until `finish`."""
        if len(self._running) >= self._concurrency or not self._startable:
            return None
        key = heapq.heappop(self._startable)[-1]
        self._running.add(key)
        return self._lanes[key].popleft()[1]

    def abandon(self, key: Hashable) -> list[T]:
        """Take out what waits behind the running message of this key: it failed, and they must not overtake it."""
        lane = self._lanes[key]
        waiting = [message for _, message in lane]
        lane.clear()
        return waiting

    def finish(self, key: Hashable) -> None:
        """The running message of this key is settled: its lane moves on."""
        self._running.discard(key)
        lane = self._lanes[key]
        if lane:
            self._offer(key, lane)
        else:
            del self._lanes[key]

    def drain(self) -> list[T]:
        """Take out everything that waits, in order of arrival."""
        waiting = sorted((entry for lane in self._lanes.values() for entry in lane), key=lambda entry: entry[0])
        self._startable.clear()
        for key, lane in list(self._lanes.items()):
            lane.clear()
            if key not in self._running:
                del self._lanes[key]
        return [message for _, message in waiting]

    def _offer(self, key: Hashable, lane: deque[tuple[int, T]]) -> None:
        arrival = lane[0][0]
        heapq.heappush(self._startable, (arrival, key))
