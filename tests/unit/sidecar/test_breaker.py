"""The breaker's transitions."""

from sidecar.breaker import LinkBreaker


def _open(failures_max: int = 3) -> LinkBreaker:
    breaker = LinkBreaker(failures_max)
    for _ in range(failures_max):
        breaker.failed()
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """Three in a row open it; a success between starts the count anew."""
    breaker = LinkBreaker(3)
    for _ in range(2):
        breaker.failed()
    breaker.succeeded()
    for _ in range(2):
        breaker.failed()
    assert breaker.state == "closed"
    breaker.failed()
    assert (breaker.state, breaker.closed) == ("open", False)


def test_only_a_probe_leads_out() -> None:
    """While open, late successes and failures change nothing; a probe half-opens, and its result decides."""
    breaker = _open()
    breaker.succeeded()
    breaker.failed()
    assert breaker.state == "open"
    breaker.probe()
    assert breaker.state == "half-open"
    breaker.failed()
    assert breaker.state == "open"
    breaker.probe()
    breaker.succeeded()
    assert breaker.closed


def test_a_probe_of_a_closed_breaker_changes_nothing() -> None:
    """Health is polled when all is well, too."""
    breaker = LinkBreaker(1)
    breaker.probe()
    assert breaker.closed
    breaker.failed()
    assert breaker.state == "open"


def test_the_count_starts_anew_after_recovery() -> None:
    """One failure after a recovery does not open it again."""
    breaker = _open()
    breaker.probe()
    breaker.succeeded()
    breaker.failed()
    assert breaker.closed
