"""A job's states, what it tells of itself, and how fast it goes."""

from dataclasses import replace

import pytest

from adapter.core.dead_letters import Filter
from adapter.core.replay_job import TRANSITIONS, JobEvent, JobState, Pace, ReplayJob
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


def walk(pace, seconds, step_us, at_most=100, start_us=0):
    """How many go in this time, asked every so often."""
    total = 0
    for now_us in range(start_us, start_us + us(seconds), step_us):
        count = pace.allows(now_us, at_most)
        pace.spent(count, now_us)
        total += count
    return total


@pytest.mark.parametrize("rate", [0.5, 1, 3, 20, 700])
@pytest.mark.parametrize("step_us", [1_000, 10_000, 90_000])
def test_a_rate_is_kept_however_often_it_is_asked(rate, step_us):
    """Exact over ten seconds, to within the first and the last."""
    assert abs(walk(Pace(rate, 0), 10, step_us) - 10 * rate) <= 1 + rate * step_us / us(1)


def test_a_delay_is_not_caught_up():
    """After a minute in which nothing was asked, a tenth of a second's worth goes at once, not a minute's."""
    pace = Pace(100, 0)
    assert walk(pace, 1, 10_000, at_most=10_000, start_us=us(60)) <= 100 + 100 / 10 + 1


def test_without_a_rate_only_the_batch_bounds():
    """As many as are asked for, each time, and again at once."""
    pace = Pace(None, 5)
    assert (pace.due_us, pace.allows(4, 20), pace.allows(5, 20)) == (5, 0, 20)
    pace.spent(20, 5)
    assert pace.allows(6, 20) == 20


def test_a_wait_is_waited():
    """And a wait that is over already changes nothing."""
    pace = Pace(10, 0)
    pace.wait(50)
    assert (pace.allows(49, 9), pace.allows(50, 9)) == (0, 1)
    pace.wait(10)
    assert pace.due_us == 50
