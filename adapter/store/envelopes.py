"""How envelopes stand in their rows, and the only place that knows it.

An envelope is an object of JSON. It stands in its row as it is, and so begins with `{`; or, where that is shorter, as
one block of LZ4 behind the byte 1 and the number of its bytes (four, the lowest first). Rows of both forms stand beside
each other. Nobody else looks into the column: no statement, no tool.

A page of zeros has the right checksum (`shared/database/zero_pages.py`), and SQLite itself notices one as soon as it
reads it, except for the last page of a long row: then the row ends in zeros. An envelope ends its row, and ends with
`}`; so does a block of it, since the last five bytes of a block are those of the text (the format's own end condition,
lz4_Block_format.md).
"""

from typing import Any, Final

import lz4.block

from shared.database import Damage
from shared.limits import BATCH_BYTES_MAX
from shared.strict_json import decode_object

_PLAIN: Final = b"{"
_PACKED: Final = b"\x01"
_SIZE_END: Final = 5

_BYTES_MAX: Final = BATCH_BYTES_MAX
"""Of an envelope with all that the adapter adds: it came in a body of that size at most, with 64 KiB to spare
(`shared/config.py`). For what claims to be larger no memory is taken."""


def to_column(envelope: bytes) -> bytes:
    """What stands in the row of an envelope, which is an object of JSON; never longer than that."""
    packed = _PACKED + lz4.block.compress(envelope)
    return packed if len(packed) < len(envelope) else envelope


def stored_envelope(column: Any) -> bytes:
    """The envelope, byte for byte as it was given to `to_column`; raises `Damage` for a column that holds none."""
    stored = bytes(column)
    if not stored.endswith(b"}"):
        raise Damage("a message ends in zeros: a page of it is gone")
    if stored.startswith(_PACKED):
        return _unpacked(stored)
    if not stored.startswith(_PLAIN):
        raise Damage(f"a message begins with the byte {stored[0]}, which nothing does that was stored")
    return stored


def read_stored(column: Any) -> dict[str, Any]:
    """What stands in it."""
    return decode_object(stored_envelope(column))


def _unpacked(stored: bytes) -> bytes:
    size = int.from_bytes(stored[len(_PACKED) : _SIZE_END], "little")
    if size > _BYTES_MAX:
        raise Damage(f"a message claims to have {size} bytes, and nobody can send that many")
    try:
        envelope: bytes = lz4.block.decompress(memoryview(stored)[len(_PACKED) :])  # `size` bytes, no more and no fewer
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise Damage(f"a message cannot be unpacked: {error}") from error
    return envelope
