"""Envelopes of rows, none of which ends in nothing.

A page of zeros has the right checksum (`shared/database/zero_pages.py`), and SQLite itself notices one as soon as it
reads it, except for the last page of a long row: then the row ends in zeros. An envelope ends its row, and is an object
of JSON.
"""

from typing import Any

from shared.database import Damage
from shared.strict_json import decode_object


def stored_envelope(column: Any) -> bytes:
    """The envelope; raises `Damage` for one whose end is gone."""
    envelope = bytes(column)
    if not envelope.endswith(b"}"):
        raise Damage("a message ends in zeros: a page of it is gone")
    return envelope


def read_stored(column: Any) -> dict[str, Any]:
    """What stands in it."""
    return decode_object(stored_envelope(column))
