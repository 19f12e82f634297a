"""The circuit breaker of the link.

One owner: pybreaker's `CircuitBreaker` holds the state and the count of failures in a row, and makes every transition.
This class only tells it what happened. Its timer, which reads the wall clock, is never consulted, because nothing is
called through it while it is open: the health poller decides when to probe, and `probe` half-opens it.

Where requests fail, a probe that succeeds meanwhile takes nothing back: they are counted on. How long all of it lasts,
over closings that only the probe made, is kept by `sidecar/core/outage.py`.

    closed ── failures_max in a row ──► open ── probe begins ──► half-open ── success ──► closed
                                          ▲──────────── failure ─────┘

What a request came to counts only while the breaker is still in the period in which the request began: an answer that
is late by a whole outage neither closes the breaker nor opens it again.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import pybreaker

from shared.clock import Clock
from shared.times import MICROSECONDS
from sidecar.core.breaker_record import BreakerRecord, State
from sidecar.core.outage import Outage

_log = logging.getLogger(__name__)


class _LinkFailure(Exception):  # noqa: N818 - never leaves this module
    """What pybreaker is told of a failure."""


class Probe:
    """One health probe; it has failed unless somebody says that the adapter was ready."""

    ready = False


class LinkBreaker:
    """Closed: the link is used. Otherwise nothing but the health probe touches the adapter.

    `period` is another number after each transition; `changed` is called after each, and where the outage changes
    without one. `quiet_us` is that of the `Outage`.
    """

    def __init__(
        self, failures_max: int, clock: Clock, changed: Callable[[], None] = lambda: None, *, quiet_us: int
    ) -> None:
        self._clock = clock
        self._changed = changed
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=failures_max, name="link", listeners=[_Listener(self._entered)]
        )
        self._probing = False
        self._record = BreakerRecord(clock.steady_us())
        self._outage = Outage(quiet_us)
        self.period = 0

    @property
    def state(self) -> State:
        """One of `closed`, `open`, `half-open`."""
        return cast("State", self._breaker.current_state)

    @property
    def closed(self) -> bool:
        """Whether requests may go out."""
        return self._breaker.current_state == pybreaker.STATE_CLOSED

    @contextlib.contextmanager
    def probe(self) -> Iterator[Probe]:
        """A health probe, until the block ends, in whatever way. There is one at a time; raises `RuntimeError` else."""
        if self._probing:
            raise RuntimeError("a probe is under way")
        probe, self._probing = Probe(), True
        if self.state == pybreaker.STATE_OPEN:
            self._breaker.half_open()
        try:
            yield probe
        finally:
            self._probing = False
            shows_nothing = probe.ready and self.closed and self.is_doubted
            if self.state != pybreaker.STATE_OPEN and not shows_nothing:  # requests may have opened it meanwhile
                self._tell(well=probe.ready)

    def succeeded(self, period: int) -> None:
        """A request that began in `period` was answered."""
        if period != self.period or not self.closed:
            return
        if self._breaker.fail_counter:
            self._tell(well=True)
        if self._outage.answered():
            self._changed()

    def failed(self, period: int) -> None:
        """A request that began in `period` was not answered, or not believably."""
        if period == self.period and self.closed:
            self._outage.failed(self._clock.steady_us())
            self._tell(well=False)
            self._changed()

    @property
    def is_doubted(self) -> bool:
        """Whether requests have failed, and none was answered since: that health is well says nothing of them."""
        return self._outage.is_shown_by_requests(self._clock.steady_us())

    @property
    def is_away(self) -> bool:
        """Whether the adapter does not do what it is asked, for however short a time."""
        return self._outage.lasts(self._clock.steady_us())

    def away_us(self) -> int:
        """For how long it has not, for certain; while the breaker is closed this grows only as requests fail."""
        return self._outage.us(self._clock.steady_us())

    def quiet_at_us(self) -> int | None:
        """When, by the steady clock, that is over if nobody asks for anything; `None` where it would not be."""
        return self._outage.quiet_at_us()

    def seconds(self) -> Mapping[str, float]:
        """Time spent in each state."""
        return self._record.seconds(self._clock.steady_us())

    def entries(self) -> Mapping[str, float]:
        """How often each state was entered."""
        return self._record.entries()

    def _tell(self, *, well: bool) -> None:
        with contextlib.suppress(_LinkFailure, pybreaker.CircuitBreakerError):
            self._breaker.call(_nothing if well else _fail)

    def _entered(self, state: State, *, was_closed: bool) -> None:
        now_us = self._clock.steady_us()
        away_seconds = self._record.not_closed_us(now_us) / MICROSECONDS
        self._record.enter(state, now_us)
        self.period += 1
        if state == "closed":
            self._outage.closed(now_us)
            _log.info("breaker-closed: after %.1f s", away_seconds)
        elif was_closed:
            self._outage.opened(now_us)
            _log.warning("breaker-open: nothing but the health probe goes to the adapter")
        else:  # twice with each probe: an outage of days would fill the log
            _log.debug("breaker-%s: not closed for %.1f s", state, away_seconds)
        self._changed()


class _Listener(pybreaker.CircuitBreakerListener):
    """Hears of every transition from the one that makes them."""

    def __init__(self, entered: Callable[..., None]) -> None:
        self._entered = entered

    def state_change(
        self,
        _: pybreaker.CircuitBreaker,
        old_state: pybreaker.CircuitBreakerState | None,
        new_state: pybreaker.CircuitBreakerState,
    ) -> None:
        """Of pybreaker, which passes its arguments by position."""
        was_closed = old_state is not None and old_state.name == pybreaker.STATE_CLOSED
        self._entered(new_state.name, was_closed=was_closed)


def _nothing() -> None:
    return


def _fail() -> None:
    raise _LinkFailure
