"""Ranges of a channel that were lost when the store was put back to an older state, or repaired with losses. Pure."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

RESTORED: Final = "restored"
"""The reason of a gap: whatever had these numbers is not in the store any more, and nobody can give it."""


class LostRange(NamedTuple):
    """Sequences `first` to `last` of a channel: some of them may never have been given."""

    first: int
    last: int


class Missing(NamedTuple):
    """Sequences that are missing, for one reason; `None` is that they are not retained, or were never handed over."""

    first: int
    last: int
    reason: str | None


def explain(first: int, last: int, lost: Iterable[LostRange]) -> list[Missing]:
    """The parts of a gap, in order, with what is known of each. `lost` overlap nowhere."""
    parts: list[Missing] = []
    begin = first
    for each in sorted(lost):
        low, high = max(begin, each.first), min(last, each.last)
        if low > high:
            continue
        if begin < low:
            parts.append(Missing(begin, low - 1, None))
        parts.append(Missing(low, high, RESTORED))
        begin = high + 1
    if begin <= last:
        parts.append(Missing(begin, last, None))
    return parts


def gap_document(channel: str, gap: Missing) -> dict[str, Any]:
    """As a `Gap` on the wire."""
    reason = {} if gap.reason is None else {"reason": gap.reason}
    return {"channel": channel, "from": gap.first, "to": gap.last, **reason}
