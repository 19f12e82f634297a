"""A job's states, what it tells of itself, and how fast it goes."""

from dataclasses import replace

import pytest

from adapter.core.dead_letters import Filter
from adapter.core.replay_job import GAP_US, TRANSITIONS, JobEvent, JobState, Pace, ReplayJob
from shared.replays import RATE_MAX
from tests.support.clock import us

JOB = ReplayJob("j", Filter(before_us=9), 5.0, None, 9, 10, {"qa": 0}, waiting=("qa",))


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("event", JobEvent)
def test_what_is_not_in_the_table_is_illegal(state, event):
    """A job ends once; what has ended raises and is left as it was."""
    job = replace(JOB, state=state)
    target = TRANSITIONS.get((state, event))
    if target is None:
        with pytest.raises(ValueError, match=state.value):
            job.moved(event, 99)
    else:
        ended = job.moved(event, 99)
        assert (ended.state, ended.ended_at_us, ended.waiting) == (target, 99, ())


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, 10), ({"replayed": 3, "refused": 2}, 5), ({"limit": 4}, 4), ({"limit": 40, "replayed": 1}, 9),
        ({"replayed": 11}, 0), ({"state": JobState.CANCELLED}, 0),
    ],
)  # fmt: skip
def test_what_is_left_is_what_was_matched_and_not_touched(changes, left):
    """Within the limit, never below nought, and nothing once it has ended."""
    assert replace(JOB, **changes).left == left


def walk(pace, seconds, late_us=0, at_most=100, start_us=0):
    """How many go in this time, where each tick comes so late."""
    total, now_us = 0, max(start_us, pace.due_us + late_us)
    while now_us < start_us + us(seconds):
        count = pace.allows(now_us, at_most)
        pace.spent(count, now_us)
        total += count
        now_us = pace.due_us + late_us
    return total


@pytest.mark.parametrize("rate", [0.5, 1, 3, 20, 300, 700])
@pytest.mark.parametrize("late_us", [0, 1_000])
def test_a_rate_is_kept(rate, late_us):
    """Over ten seconds, to within what one part of it may be."""
    total = walk(Pace(rate, 0), 10, late_us)
    assert abs(total - 10 * rate) <= 1 + rate * (GAP_US + 9 * late_us) / us(1)


@pytest.mark.parametrize("rate", [1, 20, 700])
@pytest.mark.parametrize("late_us", [5_000, 50_000, us(1)])
def test_a_rate_is_the_most(rate, late_us):
    """Where ticks are late it is less, and still more than nothing."""
    assert 1 <= walk(Pace(rate, 0), 10, late_us) <= 10 * rate + 1


def test_it_rests_longer_where_it_had_to_wait():
    """Eight times as long as it was late, up to a point: a process that stood still for an hour goes on soon."""
    for late_us, rest_us in ((0, GAP_US), (2_000, GAP_US + 16_000), (us(3_600), GAP_US + 16 * GAP_US)):
        pace = Pace(None, 0)
        pace.spent(1, late_us)
        assert pace.due_us == late_us + rest_us


def test_a_delay_is_not_caught_up():
    """After a minute in which nothing was asked, a tenth of a second's worth goes at once, not a minute's."""
    pace = Pace(100, 0)
    assert walk(pace, 1, at_most=10_000, start_us=us(60)) <= 100 + 100 / 10 + 1


@pytest.mark.parametrize("rate", [None, 1e9])
def test_no_job_is_faster_than_the_highest_rate(rate):
    """Whatever is asked for; and it rests between its parts, so that a second has 20 of them."""
    pace = Pace(rate, 5)
    assert (pace.due_us, pace.allows(4, 50), pace.allows(5, 50)) == (5, 0, 1)
    assert abs(walk(pace, 10) - 10 * RATE_MAX) <= 51
    assert pace.allows(pace.due_us - 1, 50) == 0


def test_a_wait_is_waited():
    """And a wait that is over already changes nothing."""
    pace = Pace(10, 0)
    pace.wait(50)
    assert (pace.allows(49, 9), pace.allows(50, 9)) == (0, 1)
    pace.wait(10)
    assert pace.due_us == 50
