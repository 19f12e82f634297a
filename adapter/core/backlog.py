"""What waits far back in a queue, packed.

A queue may hold a hundred thousand deliveries to which nothing has happened, and almost none of them can be the next
one. As an object of the mailbox each takes half a kilobyte; here it takes 25 bytes until its turn comes near.
"""

from collections import Counter, deque
from collections.abc import Iterator
from struct import Struct
from typing import Final

from adapter.core.delivery import Waiting
from shared.limits import POLL_MESSAGES_MAX

CHUNK: Final = POLL_MESSAGES_MAX
"""Deliveries that come up together: as many as a hand-over takes at most."""

_PACKED: Final = Struct("=qq?q")
"""Message, order key, critical, end of its time: all that is not the same for the whole queue."""

_NEVER: Final = 2**63 - 1


class Backlog:
    """Deliveries of one recipient in commit order. `lines` counts them by order key."""

    def __init__(self, recipient: str) -> None:
        self._recipient = recipient
        self.lines: Counter[int] = Counter()
        self._chunks: deque[bytearray] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiting]:
        return (waiting for chunk in self._chunks for waiting in self._unpacked(chunk))

    def oldest(self) -> int:
        """The number of the first one's message; there must be one."""
        message_id: int = _PACKED.unpack_from(self._chunks[0])[0]
        return message_id

    def append(self, waiting: Waiting) -> None:
        """Put it at the end."""
        message_id, _, order_key, critical, expires_at_us = waiting
        if not self._chunks or len(self._chunks[-1]) >= CHUNK * _PACKED.size:
            self._chunks.append(bytearray())
        ends_us = _NEVER if expires_at_us is None else expires_at_us
        self._chunks[-1] += _PACKED.pack(message_id, order_key, critical, ends_us)
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

    def _unpacked(self, chunk: bytearray) -> Iterator[Waiting]:
        for message_id, order_key, critical, ends_us in _PACKED.iter_unpack(chunk):
            expires_at_us = None if ends_us == _NEVER else ends_us
            yield Waiting(message_id, self._recipient, order_key, critical, expires_at_us)
