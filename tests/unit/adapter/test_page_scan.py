"""The background scan of pages: spread over its interval, within its share of the time, and begun again when due."""

import pytest

from adapter.core.page_scan import DUTY_MAX, SLICE_PAGES, ScanPosition, advance, is_due, wait_us
from shared.times import MICROSECONDS

HOUR_US = 3_600 * MICROSECONDS
DAY_US = 24 * HOUR_US
START_US = 1_800_000_000 * MICROSECONDS


def scan(pages, interval_us, slice_us):
    """A whole scan in virtual time: how long it takes, and how much of that is reading."""
    position, now_us, read_us = ScanPosition(), START_US, 0
    while position.finished_at_us is None:
        assert is_due(position, interval_us, now_us)
        position = advance(position, pages, now_us)
        read_us += slice_us
        now_us += slice_us + wait_us(position, pages, interval_us, slice_us, now_us)
    return now_us - START_US, read_us


@pytest.mark.parametrize("pages", [500_000, 3_000_000])
def test_a_scan_is_spread_over_its_interval(pages):
    """Neither done in a burst nor late."""
    took_us, _ = scan(pages, DAY_US, slice_us=10_000)
    assert took_us == pytest.approx(DAY_US, rel=0.05)


def test_a_scan_takes_no_more_than_its_share_of_the_time():
    """However large the store, and however slow the disk: then it takes longer than its interval."""
    took_us, read_us = scan(3_000_000, HOUR_US, slice_us=500_000)
    assert read_us / took_us <= DUTY_MAX
    assert took_us > HOUR_US


def test_every_page_is_read_once():
    """From the first to the last, whatever their number."""
    for pages in (1, SLICE_PAGES - 1, SLICE_PAGES, SLICE_PAGES + 1, 10 * SLICE_PAGES):
        position, firsts = ScanPosition(), []
        while position.finished_at_us is None:
            firsts.append(position.next_page)
            position = advance(position, pages, START_US)
        assert firsts == list(range(1, pages + 1, SLICE_PAGES))
        assert position == ScanPosition(1, START_US, START_US)


def test_the_next_scan_begins_an_interval_after_the_last_began():
    """Not before; at once where the wall clock was set back."""
    done = ScanPosition(1, START_US, START_US + HOUR_US)
    assert not is_due(done, DAY_US, START_US + 2 * HOUR_US)
    assert is_due(done, DAY_US, START_US + DAY_US)
    assert is_due(done, DAY_US, START_US - 1)
    assert wait_us(done, 500, DAY_US, 0, START_US + DAY_US - 5) == 5
    assert wait_us(done, 500, DAY_US, 0, START_US + 2 * HOUR_US) == 60 * MICROSECONDS
