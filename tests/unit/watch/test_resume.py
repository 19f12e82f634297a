"""Where reading goes on after a restart."""

import pytest

from multiclaw.watch.core.resume import Kept, Resumption, resume
from tests.support.journal_entries import place

KEPT = Kept(place(10), place(20))


def test_where_the_entry_is_there_nothing_was_missed() -> None:
    """Reading goes on right after it."""
    assert resume(place(15), found=True, kept=KEPT) == Resumption("after", gap=False)


@pytest.mark.parametrize(
    ("last", "kept", "begin"),
    [
        (place(5), KEPT, "oldest"),
        (place(15), KEPT, "time"),
        (place(20), KEPT, "time"),
        (place(10), KEPT, "oldest"),
        (place(25), KEPT, "oldest"),
        (place(5), Kept(None, None), "oldest"),
    ],
    ids=["vacuumed", "one-file-lost", "newest-time", "oldest-time", "clock-set-back", "empty"],
)
def test_where_it_is_gone_somebody_is_told(last, kept, begin) -> None:
    """Whatever is kept that may be new is read again, and the gap is told."""
    assert resume(last, found=False, kept=kept) == Resumption(begin, gap=True)
