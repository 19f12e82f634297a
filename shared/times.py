"""Times as numbers and as text: whole microseconds since the epoch, and RFC 3339. Pure: no clock is read here."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

MICROSECONDS: Final = 1_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


def iso(us: int) -> str:
    """RFC 3339 in UTC with microseconds and `Z`."""
    seconds, rest = divmod(us, MICROSECONDS)
    return f"{_whole(seconds)}.{rest:06d}Z"


def from_iso(text: str) -> int:
    """Microseconds of an RFC 3339 time with an offset; raises `ValueError` for anything else.

    `fromisoformat` alone also takes week dates, a missing offset and more of ISO 8601 that other readers refuse.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError("a time needs a date, a 'T', seconds, and an offset such as 'Z' or '+02:00'")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=256)  # a group of messages asks several times for each of them, and of a few seconds only
def _whole(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
