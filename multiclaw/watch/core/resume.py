"""Where to go on in the journal after a restart, and whether something may have been missed."""

from dataclasses import dataclass
from typing import Literal

from multiclaw.watch.core.entry import Place


@dataclass(frozen=True, slots=True)
class Kept:
    """What the journal still has: its oldest and its newest entry, None where it is empty."""

    oldest: Place | None
    newest: Place | None


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where to begin reading: after the last place, at that place's time, or with the oldest entry. `gap`: entries
    that nobody has seen may be gone."""

    begin: Literal["after", "time", "oldest"]
    gap: bool


def resume(last: Place, *, found: bool, kept: Kept) -> Resumption:
    """How to go on from the last place; `found` says whether its entry is there still.

    An entry that is gone was vacuumed, and so may others that came after it. All that is kept is then read again from
    that time on. Where everything that is kept is older, the clock was set back or the newest files were lost: what is
    new cannot be told by its time, so all of it is read, and what was told before is recognised.
    """
    if found:
        return Resumption("after", gap=False)
    if kept.oldest is None or kept.newest is None:
        return Resumption("oldest", gap=True)
    if kept.oldest.time_us < last.time_us <= kept.newest.time_us:
        return Resumption("time", gap=True)
    return Resumption("oldest", gap=True)
