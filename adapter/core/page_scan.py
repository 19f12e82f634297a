"""How fast the pages of the store are read again in the background, and how far that has come."""

from dataclasses import dataclass, replace
from typing import Final

from shared.times import MICROSECONDS

SLICE_PAGES: Final = 128
"""Pages that are read at once: a mebibyte of them takes a disk some milliseconds."""

DUTY_MAX: Final = 0.05
"""At most this share of the time is spent reading, whatever the interval asks for: a store too large for its interval
is scanned more slowly, and `/health` shows it."""

_PAUSE_US_MAX: Final = 60 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """Page numbers from 1; wall microseconds. `begun_at_us` is of the scan under way, `finished_at_us` of the last."""

    next_page: int = 1
    begun_at_us: int | None = None
    finished_at_us: int | None = None


def wait_us(position: ScanPosition, pages: int, interval_us: int, slice_us: int, now_us: int) -> int:
    """How long to rest before the next slice, when the last one took `slice_us`. It is asked again after a minute, so
    a clock that was set delays no scan for longer.
    """
    if position.next_page == 1 and position.finished_at_us is not None:
        due_us = (position.begun_at_us or position.finished_at_us) + interval_us - now_us
        if due_us > 0:
            return min(due_us, _PAUSE_US_MAX)
    even_us = interval_us * SLICE_PAGES // max(pages, SLICE_PAGES)
    return min(max(even_us, int(slice_us / DUTY_MAX)), _PAUSE_US_MAX)


def is_due(position: ScanPosition, interval_us: int, now_us: int) -> bool:
    """Whether a slice is to be read now: within a scan always, else once the interval has passed since it began."""
    if position.next_page > 1 or position.finished_at_us is None:
        return True
    elapsed_us = now_us - (position.begun_at_us or position.finished_at_us)
    return elapsed_us >= interval_us or elapsed_us < 0


def advance(position: ScanPosition, pages: int, now_us: int) -> ScanPosition:
    """After a slice was found right, of a store with so many pages."""
    begun_at_us = now_us if position.next_page == 1 else position.begun_at_us
    if position.next_page + SLICE_PAGES > pages:
        return ScanPosition(1, begun_at_us, now_us)
    return replace(position, next_page=position.next_page + SLICE_PAGES, begun_at_us=begun_at_us)
