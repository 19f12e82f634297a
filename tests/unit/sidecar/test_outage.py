"""Since when an adapter is away whose health says otherwise."""

from collections.abc import Callable

import pytest

from sidecar.core.outage import Outage
from tests.support.clock import us

QUIET_US = us(120)


def _outage() -> Outage:
    return Outage(QUIET_US)


def test_it_goes_on_over_closings_that_only_a_probe_made() -> None:
    """Sends hang, the breaker opens, a probe closes it, they hang again: one outage, from the first that failed."""
    outage = _outage()
    for cycle in range(10):
        at = cycle * 60
        for failure in (10, 20, 30):
            outage.failed(us(at + failure))
            assert outage.us(us(at + failure)) == us(at + failure - 10)
        outage.opened(us(at + 30))
        assert outage.us(us(at + 40)) == us(at + 30)
        outage.closed(us(at + 55))
        assert outage.lasts(us(at + 55))
    assert outage.answered()
    assert (outage.lasts(us(601)), outage.us(us(601))) == (False, 0)


def test_time_alone_proves_nothing_while_requests_may_go_out() -> None:
    """One request that failed is no outage of hours: it has lasted up to the last failure."""
    outage = _outage()
    outage.failed(us(1))
    assert (outage.lasts(us(100)), outage.us(us(100))) == (True, 0)
    outage.failed(us(100))
    assert outage.us(us(119)) == us(99)


def test_what_only_probes_have_shown_ends_with_a_probe() -> None:
    """No request has failed: that health is well is all there is to know."""
    outage = _outage()
    outage.opened(us(1))
    assert outage.us(us(61)) == us(60)
    assert not outage.is_shown_by_requests(us(61))
    outage.closed(us(61))
    assert not outage.lasts(us(61))
    assert not outage.answered()


@pytest.mark.parametrize("again", [Outage.failed, Outage.opened])
def test_silence_ends_it(again: Callable[[Outage, int], None]) -> None:
    """Where nobody asks for anything for longer than a request takes, it is over, and the next one begins by itself. An
    open breaker lets nothing out, so that its silence says nothing."""
    outage = _outage()
    outage.failed(us(1))
    outage.opened(us(2))
    assert outage.quiet_at_us() is None
    assert outage.lasts(us(10_000))
    outage.closed(us(10_000))
    assert outage.quiet_at_us() == us(10_120)
    assert outage.lasts(us(10_119))
    assert not outage.lasts(us(10_120))
    again(outage, us(20_000))
    assert outage.lasts(us(20_000))
    assert outage.us(us(20_000)) == 0
    assert outage.is_shown_by_requests(us(20_000)) == (again is Outage.failed)
