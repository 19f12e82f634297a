"""The retry schedule is arithmetic with a cap."""

import pytest

from adapter.core.retry import RetryPolicy

POLICY = RetryPolicy(attempts_max=3, base_us=1_000_000, cap_us=60_000_000)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (1_000_000, 60)])
def test_the_longest_wait_doubles_up_to_the_cap(failures, seconds):
    """No count of failures overflows (redis-py#4320)."""
    assert POLICY.delay_us(failures, 1.0) == seconds * 1_000_000


@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
def test_jitter_is_full(jitter):
    """Any point from nothing to the ceiling may be picked."""
    assert POLICY.delay_us(3, jitter) == int(4_000_000 * jitter)


def test_a_base_of_zero_never_waits():
    """The cap is no floor."""
    assert RetryPolicy(3, 0, 60).delay_us(1_000_000, 1.0) == 0


@pytest.mark.parametrize(("failures", "spent"), [(0, False), (2, False), (3, True), (4, True)])
def test_the_budget_is_the_number_of_failures(failures, spent):
    """The third failure of three is the last."""
    assert POLICY.is_spent(failures) is spent
