"""The wall clock counts only as far as it agrees with the steady one."""

import pytest

from adapter.core.clock_trust import ABSENCE_US, TOLERANCE_US, ClockTrust, Line
from adapter.core.policy import Now
from tests.support.clock import us
from tests.support.factories import START_US

DAY = us(86_400)
HOUR = us(3_600)
START = ClockTrust(Line(START_US, START_US))


def at(steady_us: int, step_us: int = 0) -> Now:
    """So long after the start, with the wall set forward by `step_us`."""
    return Now(START_US + steady_us + step_us, START_US + steady_us)


def looked(trust: ClockTrust, *moments: Now) -> ClockTrust:
    """After looks at these moments."""
    for moment in moments:
        trust = trust.observe(moment, DAY)
    return trust


@pytest.mark.parametrize("step_us", [0, us(1), TOLERANCE_US, -TOLERANCE_US])
def test_a_clock_that_keeps_step_is_believed(step_us: int) -> None:
    """Up to an hour it may be set by: no jump; but the earlier of both counts."""
    now = at(HOUR, step_us)
    after = looked(START, now)
    assert START.jump(after, at_start=False) is None
    assert after.claimed is None
    assert after.time_us(now) == START_US + HOUR + min(0, step_us)


def test_what_a_jump_forward_skipped_does_not_count() -> None:
    """40 days at once: trusted time goes on as if nothing had happened, and somebody hears of it once."""
    now, later = at(HOUR, 40 * DAY), at(3 * HOUR, 40 * DAY)
    after = looked(START, now)
    assert START.jump(after, at_start=False) == "ahead"
    assert after.time_us(now) == START_US + HOUR
    again = looked(after, later)
    assert after.jump(again, at_start=False) is None
    assert again.time_us(later) == START_US + 3 * HOUR


def test_a_jump_is_believed_after_a_day_of_agreement() -> None:
    """Not a moment before."""
    jumped = looked(START, at(HOUR, 40 * DAY))
    almost, whole = at(HOUR + DAY - 1, 40 * DAY), at(HOUR + DAY, 40 * DAY)
    assert looked(jumped, almost).time_us(almost) == START_US + HOUR + DAY - 1
    assert looked(jumped, almost, whole).time_us(whole) == whole.wall_us
    assert looked(jumped, almost, whole).claimed is None


def test_a_second_jump_begins_the_wait_anew() -> None:
    """And is a jump of its own."""
    first = looked(START, at(HOUR, 40 * DAY))
    second = looked(first, at(20 * HOUR, 50 * DAY))
    assert first.jump(second, at_start=False) == "ahead"
    late = at(HOUR + DAY, 50 * DAY)
    assert looked(second, late).time_us(late) == START_US + HOUR + DAY
    done = at(20 * HOUR + DAY, 50 * DAY)
    assert looked(second, late, done).time_us(done) == done.wall_us


def test_to_1970_and_back() -> None:
    """A clock that lost its date makes nothing old; when it is right again it is believed at once."""
    lost, back = at(HOUR, -START_US), at(2 * HOUR)
    after = looked(START, lost)
    assert START.jump(after, at_start=False) == "behind"
    assert after.time_us(lost) == lost.wall_us
    returned = looked(after, back)
    assert after.jump(returned, at_start=False) is None
    assert (returned.claimed, returned.time_us(back)) == (None, back.wall_us)


def test_an_hour_back_is_no_jump() -> None:
    """Both clocks are an hour apart at most: what is trusted is the earlier one."""
    now = at(HOUR, -HOUR)
    after = looked(START, now)
    assert START.jump(after, at_start=False) is None
    assert after.time_us(now) == now.wall_us


def test_a_clock_that_runs_fast_gains_an_hour_a_day_at_most() -> None:
    """What creeps is noticed as soon as it has gained more than the tolerance within the time of agreement."""
    trust, step_us = START, 0
    for hour in range(1, 25):
        step_us += us(300)  # five minutes an hour
        trust = trust.observe(at(hour * HOUR, step_us), DAY)
    assert trust.claimed is not None
    assert trust.time_us(at(DAY, step_us)) == START_US + DAY


def test_a_clock_that_drifts_is_followed() -> None:
    """Seconds a day add up to nothing: the line is drawn anew after each day."""
    trust, step_us = START, 0
    for day in range(1, 1_001):
        step_us += us(10)
        trust = trust.observe(at(day * DAY, step_us), DAY)
        assert trust.claimed is None
    assert trust.time_us(at(1_000 * DAY, step_us)) == START_US + 1_000 * DAY + step_us


@pytest.mark.parametrize(
    ("away_us", "told"), [(2 * DAY, None), (ABSENCE_US, None), (ABSENCE_US + HOUR, "ahead"), (-2 * HOUR, "behind")]
)
def test_an_absence_counts_as_a_jump(away_us: int, told: str | None) -> None:
    """Nobody can tell them apart at a start; only a long one, or a clock that went back, is told."""
    now = at(0, away_us)
    after = looked(START, now)
    assert START.jump(after, at_start=True) == told
    assert after.time_us(now) == START_US + min(0, away_us)
