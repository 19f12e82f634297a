"""When a message ends: at its `deadline` or its `expires_at`, whichever comes first."""

from typing import Any, Final

from shared.problems import Problem
from shared.times import from_iso

_FIELDS: Final = ("deadline", "expires_at")


def ends_at_us(deadline: str | None, expires_at: str | None) -> int | None:
    """Wall microseconds from which on the message is not delivered any more; None if it has no end."""
    if deadline is None:
        return None if expires_at is None else from_iso(expires_at)
    return from_iso(deadline) if expires_at is None else min(from_iso(deadline), from_iso(expires_at))


def expired(envelope: dict[str, Any]) -> Problem:
    """The refusal of a message that has ended; it names the field that ended it."""
    ends = {name: from_iso(envelope[name]) for name in _FIELDS if envelope.get(name) is not None}
    field = min(ends, key=lambda name: ends[name], default="expires_at")
    return Problem("expired", f"Its {field} has passed; nothing was sent.", field=f"/{field}")
