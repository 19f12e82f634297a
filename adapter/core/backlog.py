"""What waits far back in a queue, packed.

A queue may hold a hundred thousand deliveries to which nothing has happened, and almost none of them can be the next
one. As an object of the mailbox each takes half a kilobyte; here it takes 32 bytes, four numbers, until its turn comes
near.
"""

from array import array
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from adapter.core.delivery import Waiting
from shared.limits import POLL_MESSAGES_MAX

CHUNK: Final = POLL_MESSAGES_MAX
"""Deliveries that come up together: as many as a hand-over takes at most."""

_NEVER: Final = 2**63 - 1


class Backlog:
    """Deliveries of one recipient in commit order. `lines` counts them by order key."""

    def __init__(self, recipient: str) -> None:
        self._recipient = recipient
        self.lines: Counter[int] = Counter()
        self._chunks: deque[array[int]] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiting]:
        return (waiting for chunk in self._chunks for waiting in self._unpacked(chunk))

    def oldest(self) -> int:
        """The number of the first one's message; there must be one."""
        return self._chunks[0][0]

    def append(self, waiting: Waiting) -> None:
        """Put it at the end."""
        message_id, _, order_key, critical, expires_at_us = waiting
        numbers = message_id, order_key, critical, _NEVER if expires_at_us is None else expires_at_us
        if not self._chunks or len(self._chunks[-1]) == CHUNK * len(numbers):
            self._chunks.append(array("q"))
        self._chunks[-1].extend(numbers)
        self.lines[order_key] += 1
        self._length += 1

    def pop(self) -> list[Waiting]:
        """Take the first few, `CHUNK` at most; there must be one."""
        first = list(self._unpacked(self._chunks.popleft()))
        self._length -= len(first)
        for waiting in first:
            self.lines[waiting.order_key] -= 1
            if not self.lines[waiting.order_key]:
                del self.lines[waiting.order_key]
        return first

    def _unpacked(self, chunk: "array[int]") -> Iterator[Waiting]:
        numbers = iter(chunk)
        for message_id, order_key, critical, ends_us in zip(numbers, numbers, numbers, numbers, strict=True):
            expires_at_us = None if ends_us == _NEVER else ends_us
            yield Waiting(message_id, self._recipient, order_key, bool(critical), expires_at_us)
