"""What waits, and for how long, when the adapter says when to come again."""

import pytest

from shared.problems import Problem
from sidecar.core.link_outcome import Outcome, Verdict, first_unsettled, is_too_fast, must_wait, read_outcome
from sidecar.core.pacing import Pause, pause


def refused(kind: str, **fields: float) -> Outcome:
    """One message of a batch that the adapter did not take."""
    problem = Problem(kind, "Later.", retry_after=fields.pop("retry_after", None), **fields)
    return read_outcome({"code": problem.status, "problem": problem.document()})


DONE = Outcome(Verdict.ACCEPTED, 201, answer={})
TOO_FAST = refused("rate-limited", retry_after=0.005, per_second=200)


@pytest.mark.parametrize(
    ("waiting", "expected"), [(1, Pause(0.005, 1)), (5, Pause(0.025, 5)), (20, Pause(0.1, 20)), (900, Pause(0.1, 20))]
)
def test_what_a_rate_brings_soon_leaves_together(waiting: int, expected: Pause) -> None:
    """One alone waits for its token; of many, a tenth of a second's worth leaves in one request."""
    found = pause(TOO_FAST, waiting)
    assert found is not None
    assert (round(found.seconds, 6), found.count) == (expected.seconds, expected.count)


@pytest.mark.parametrize("per_second", [1, 3, 50, 1_000, 10**6])
def test_all_that_leave_together_fit_the_rate(per_second: int) -> None:
    """The wait is never shorter than the tokens need, and a request never larger than a batch may be."""
    found = pause(refused("rate-limited", retry_after=0.01, per_second=per_second), 10_000)
    assert found is not None
    assert found.seconds >= 0.01 + (found.count - 1) / per_second
    assert 1 <= found.count <= 100


def test_a_full_queue_is_waited_for_as_told() -> None:
    """It says when, and nothing of a rate."""
    assert pause(refused("queue-full", retry_after=5.0), 3) == Pause(5.0, 100)


@pytest.mark.parametrize("first", [None, refused("held-back"), refused("internal", retry_after=1.0)])
def test_without_a_word_of_when_nobody_waits(first: Outcome | None) -> None:
    """Silence and faults are the breaker's and the health poller's matter."""
    assert pause(first, 1) is None


def test_the_first_that_must_come_again_speaks_for_all_behind_it() -> None:
    """What was done or refused for good before it does not."""
    outcomes = [DONE, refused("expired"), TOO_FAST, refused("held-back")]
    assert first_unsettled(outcomes) is TOO_FAST
    assert first_unsettled(outcomes[:2]) is None


def test_who_waits_and_who_is_told() -> None:
    """Too fast and held back wait in order; a full queue is for the agent to know."""
    assert is_too_fast(TOO_FAST)
    assert not is_too_fast(refused("queue-full", retry_after=5.0))
    assert [must_wait(one) for one in (TOO_FAST, refused("held-back"), refused("queue-full"), DONE)] == [
        True, True, False, False,
    ]  # fmt: skip
