"""The breaker's transitions, what it records of them, and its pauses."""

import logging

import pytest

from sidecar.breaker import LinkBreaker
from tests.support.clock import SettableClock, us

QUIET_US = us(120)


def _breaker(failures_max: int = 3) -> LinkBreaker:
    return LinkBreaker(failures_max, SettableClock(), quiet_us=QUIET_US)


def _fail(breaker: LinkBreaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.failed(breaker.period)


def _open(failures_max: int = 3) -> LinkBreaker:
    breaker = _breaker(failures_max)
    _fail(breaker, failures_max)
    return breaker


def _probe(breaker: LinkBreaker, *, ready: bool) -> None:
    with breaker.probe() as probe:
        probe.ready = ready


def test_failures_in_a_row_open_it() -> None:
    """Three in a row open it; a success between starts the count anew."""
    breaker = _breaker()
    _fail(breaker, 2)
    breaker.succeeded(breaker.period)
    _fail(breaker, 2)
    assert breaker.state == "closed"
    _fail(breaker)
    assert (breaker.state, breaker.closed) == ("open", False)


def test_only_a_probe_leads_out() -> None:
    """A probe half-opens it, and its result decides."""
    breaker = _open()
    with breaker.probe():
        assert (breaker.state, breaker.closed) == ("half-open", False)
    assert breaker.state == "open"
    _probe(breaker, ready=True)
    assert breaker.closed


@pytest.mark.parametrize("ready", [True, False])
def test_late_answers_count_for_nothing(ready: bool) -> None:
    """A request that began before the breaker opened ends while it is open, half-open, or closed again: whatever came
    of it, the probe alone decides, and the failures after it are counted from none."""
    breaker = _breaker()
    before = breaker.period
    _fail(breaker, 3)
    for late in (breaker.succeeded, breaker.failed):
        late(before)
        assert breaker.state == "open"
        with breaker.probe() as probe:
            late(before)
            assert breaker.state == "half-open"
            probe.ready = ready
        assert breaker.closed == ready
        for _ in range(3):
            late(before)
        assert breaker.closed == ready
        _fail(breaker, 3)


def test_a_probe_of_a_closed_breaker_counts_like_a_request() -> None:
    """Health is polled when all is well, too."""
    breaker = _breaker(2)
    _probe(breaker, ready=True)
    _probe(breaker, ready=False)
    assert breaker.closed
    _probe(breaker, ready=False)
    assert breaker.state == "open"


def test_health_takes_back_no_failure_of_a_request() -> None:
    """Requests that fail among probes that succeed are counted on; an answer, or a long silence, starts anew."""
    clock = SettableClock()
    breaker = LinkBreaker(2, clock, quiet_us=QUIET_US)
    for forgets in (lambda: breaker.succeeded(breaker.period), lambda: clock.advance(120)):
        _fail(breaker)
        _probe(breaker, ready=True)
        forgets()
        _probe(breaker, ready=True)
        _fail(breaker)
        assert breaker.closed
        breaker.succeeded(breaker.period)
    _fail(breaker)
    _probe(breaker, ready=True)
    _fail(breaker)
    assert breaker.state == "open"


def test_requests_may_open_it_during_a_probe() -> None:
    """The probe had begun while it was closed: its success is not the one that closes it."""
    breaker = _breaker()
    with breaker.probe() as probe:
        _fail(breaker, 3)
        probe.ready = True
    assert breaker.state == "open"


def test_the_count_starts_anew_after_recovery() -> None:
    """One failure after a recovery does not open it again."""
    breaker = _open()
    _probe(breaker, ready=True)
    _fail(breaker)
    assert breaker.closed


def test_one_probe_at_a_time() -> None:
    """A second one is an error, and harms the first in no way."""
    breaker = _open()
    with breaker.probe() as probe:
        with pytest.raises(RuntimeError), breaker.probe():
            raise AssertionError("two probes at once")
        assert breaker.state == "half-open"
        probe.ready = True
    assert breaker.closed


@pytest.mark.parametrize("end", [KeyboardInterrupt, GeneratorExit, TimeoutError, ValueError])
def test_a_probe_that_ends_otherwise_has_failed(end: type[BaseException]) -> None:
    """Cancelled, timed out or broken: the breaker is not stuck half-open, and the next probe can begin."""
    breaker = _open()
    with pytest.raises(end), breaker.probe():
        raise end
    assert breaker.state == "open"
    _probe(breaker, ready=True)
    assert breaker.closed


def test_a_million_failures_change_nothing() -> None:
    """Counting them overflows nowhere, and the first success after them closes it."""
    breaker = _open(1)
    for _ in range(1_000_000):
        breaker.failed(breaker.period - 1)
    for _ in range(1_000):
        _probe(breaker, ready=False)
    _probe(breaker, ready=True)
    assert breaker.closed


def test_it_records_its_states() -> None:
    """How often each was entered, how long it lasted, and since when it has not been closed, over probes that fail."""
    clock = SettableClock()
    breaker = LinkBreaker(1, clock, quiet_us=QUIET_US)
    clock.advance(10)
    breaker.failed(breaker.period)
    for _ in range(2):
        clock.advance(3)
        with breaker.probe():
            clock.advance(1)
    clock.step_wall(1_000_000)
    assert breaker.away_us() == 8_000_000
    assert breaker.seconds() == pytest.approx({"closed": 10, "open": 6, "half-open": 2})
    assert breaker.entries() == {"closed": 0, "open": 3, "half-open": 2}
    _probe(breaker, ready=True)
    assert breaker.away_us() == 0
    assert breaker.entries() == {"closed": 1, "open": 3, "half-open": 3}


def test_every_change_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Opening and closing in plain sight, what a probe does in between at the level of debugging."""
    caplog.set_level(logging.DEBUG, "sidecar.breaker")
    breaker = _open()
    _probe(breaker, ready=False)
    _probe(breaker, ready=True)
    told = [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records]
    assert told == [
        ("WARNING", "breaker-open"),
        ("DEBUG", "breaker-half-open"),
        ("DEBUG", "breaker-open"),
        ("DEBUG", "breaker-half-open"),
        ("INFO", "breaker-closed"),
    ]
