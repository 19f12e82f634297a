"""The schedule of retries is bounded arithmetic."""

from multiclaw.client.retry import RetryPolicy

POLICY = RetryPolicy(retry_seconds=30.0, base=0.05, cap=2.0)


def test_waits_grow_to_the_cap_and_stay():
    """Each wait is at most double the last, never over the cap, also after a million failures."""
    waits = [POLICY.delay(failures, 1.0) for failures in (1, 2, 3, 7, 1_000_000)]
    assert waits == [0.05, 0.1, 0.2, 2.0, 2.0]


def test_jitter_is_full():
    """Chance spreads a wait over all of it, down to nothing."""
    assert POLICY.delay(10, 0.0) == 0.0
    assert POLICY.delay(10, 0.5) == 1.0


def test_the_servers_word_is_not_undercut():
    """Retry-After is a lower bound."""
    assert POLICY.wait(1, 0.0, 0.0, 5.0) == 5.0


def test_the_budget_ends_it():
    """No attempt begins after the budget; a wait asked for that would not fit gives up at once."""
    assert POLICY.wait(10, 1.0, 29.0, None) == 1.0
    assert POLICY.wait(1, 0.0, 30.0, None) is None
    assert POLICY.wait(1, 0.0, 20.0, 11.0) is None
    assert RetryPolicy(retry_seconds=0.0).wait(1, 0.0, 0.0, None) is None
