"""The circuit breaker of the link.

One owner: pybreaker's `CircuitBreaker` holds the state and the count of failures in a row, and makes every transition.
This class only tells it what happened. Its timer, which reads the wall clock, is never consulted, because nothing is
called through it while it is open: the health poller decides when to probe, and `probe` half-opens it.

    closed ── failures_max in a row ──► open ── probe begins ──► half-open ── success ──► closed
                                          ▲──────────── failure ─────┘
"""

import contextlib
from typing import Literal, cast

import pybreaker

State = Literal["closed", "open", "half-open"]


class _LinkFailure(Exception):  # noqa: N818 - never leaves this module
    """What pybreaker is told of a failure."""


class LinkBreaker:
    """Closed: the link is used. Otherwise nothing but the health probe touches the adapter."""

    def __init__(self, failures_max: int) -> None:
        self._breaker = pybreaker.CircuitBreaker(fail_max=failures_max, name="link")

    @property
    def state(self) -> State:
        """One of `closed`, `open`, `half-open`."""
        return cast("State", self._breaker.current_state)

    @property
    def closed(self) -> bool:
        """Whether requests may go out."""
        return self._breaker.current_state == pybreaker.STATE_CLOSED

    def probe(self) -> None:
        """A health probe begins; its result must be told by `succeeded` or `failed`."""
        if self.state == pybreaker.STATE_OPEN:
            self._breaker.half_open()

    def succeeded(self) -> None:
        """The adapter answered. A late answer does not close an open breaker; the probe does."""
        if self.state == pybreaker.STATE_OPEN or (self.closed and not self._breaker.fail_counter):
            return
        self._breaker.call(_nothing)

    def failed(self) -> None:
        """The adapter did not answer, or not believably."""
        if self.state == pybreaker.STATE_OPEN:
            return
        with contextlib.suppress(_LinkFailure, pybreaker.CircuitBreakerError):
            self._breaker.call(_fail)


def _nothing() -> None:
    return


def _fail() -> None:
    raise _LinkFailure
