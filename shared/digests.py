"""SHA-256 and HMAC-SHA256, from the standard library, in slices.

hashlib gives up the interpreter for input of 2,048 bytes or more (HASHLIB_GIL_MINSIZE), and so does `hmac.digest` for
any. For messages of a few KB, taking it back from the writer's thread costs more than the hashing; only long input is
worth that.
"""

import hashlib
import hmac
from collections.abc import Iterator
from typing import Final

_SLICE_BYTES: Final = 2_047
_LONG_BYTES: Final = 64 * 1024


def sha256(data: bytes) -> "hashlib._Hash":
    """The finished hash of `data`."""
    state = hashlib.sha256()
    for part in _slices(data):
        state.update(part)
    return state


class Hmac:
    """HMAC-SHA256 under one secret, whose padded blocks are hashed once (RFC 2104, section 4)."""

    __slots__ = ("_prototype",)

    def __init__(self, secret: bytes) -> None:
        self._prototype = hmac.new(secret, digestmod="sha256")

    def hexdigest(self, message: bytes) -> str:
        """The MAC of `message`, 64 hexadecimal digits."""
        state = self._prototype.copy()
        for part in _slices(message):
            state.update(part)
        return state.hexdigest()


def _slices(data: bytes) -> Iterator[bytes | memoryview]:
    if len(data) <= _SLICE_BYTES or len(data) >= _LONG_BYTES:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(data), _SLICE_BYTES):
        yield view[start : start + _SLICE_BYTES]
