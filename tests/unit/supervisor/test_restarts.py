"""When an ended child is started again."""

from hypothesis import given
from hypothesis import strategies as st

from multiclaw.supervisor.restarts import (
    DELAY_SECONDS_MAX,
    DELAY_SECONDS_MIN,
    STEADY_SECONDS,
    Again,
    Restarts,
    after_end,
)
from shared.config import EXIT_CONFIGURATION


def delays(lives: list[float]) -> list[float]:
    restarts, found = Restarts(), []
    for lived in lives:
        again = after_end(restarts, -9, lived)
        assert again is not None
        restarts = again.restarts
        found.append(again.delay_seconds)
    return found


def test_delays_of_short_lives_double_up_to_the_cap():
    """A child that cannot start is tried less and less often, but never given up and never slower than the cap."""
    assert delays([0.1] * 8) == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_steady_life_starts_the_delays_anew():
    """One crash after a long healthy life is mended at once, however many there were before it."""
    assert delays([0.1, 0.1, STEADY_SECONDS, 0.1]) == [0.2, 0.4, 0.2, 0.4]


def test_a_fault_of_the_configuration_is_not_retried():
    """Status 78 says that a restart will not help, however long the child lived."""
    assert after_end(Restarts(), EXIT_CONFIGURATION, 0.0) is None
    assert after_end(Restarts(7, 3), EXIT_CONFIGURATION, 1e6) is None


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e9), st.integers(-64, 255))
def test_any_other_end_is_followed_by_a_bounded_delay(total, short_lives, lived, status):
    """No history overflows, waits for nothing, or waits beyond the cap; every restart is counted."""
    again = after_end(Restarts(total, short_lives), status, lived)
    if status == EXIT_CONFIGURATION:
        assert again is None
    else:
        assert isinstance(again, Again)
        assert DELAY_SECONDS_MIN <= again.delay_seconds <= DELAY_SECONDS_MAX
        assert again.restarts.total == total + 1
