"""Tells of pending alarms by one way, again until it succeeds or is given up. Ways do not wait for each other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from multiclaw.watch.core.delivery import Pending, is_over, next_for, retry_seconds
from multiclaw.watch.spool import Spool
from multiclaw.watch.ways import NotTold, Tell
from shared.clock import Clock

_log = logging.getLogger(__name__)

_FAULT: Final = "a fault of the watcher's own; see its log"

GivenUp = Callable[[Pending, str, str], Awaitable[None]]
"""Hears of an alarm, the way, and the reason why it was given up."""


class Teller:
    """One way. `wake` when something may be pending."""

    def __init__(self, way: str, tell: Tell, spool: Spool, clock: Clock, give_up_us: int, given_up: GivenUp) -> None:
        self.way = way
        self._tell = tell
        self._spool = spool
        self._clock = clock
        self._give_up_us = give_up_us
        self._given_up = given_up
        self._failures: dict[str, int] = {}
        self._given: set[str] = set()
        self._in_a_row = 0
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There is something new."""
        self._news.set()

    async def run(self) -> None:
        """Tell until cancelled. What is being told then is told again by the next process."""
        while True:
            self._news.clear()
            pending = next_for(self.way, self._spool.pending, self._failures)
            if pending is None:
                await self._news.wait()
            elif not await self._attempt(pending):
                await self._pause(retry_seconds(self._in_a_row))

    async def _attempt(self, pending: Pending) -> bool:
        """Whether it need not be told by this way any more."""
        try:
            await self._tell(pending.alarm)
            self._settle(pending)
            self._in_a_row = 0
            return True
        except NotTold as refusal:
            return await self._failed(pending, str(refusal), for_good=refusal.for_good)
        except Exception:  # a full disk, or a fault of ours: it must not silence this way until the next start
            _log.exception("alarm-not-told: by %s", self.way)
            return await self._failed(pending, _FAULT, for_good=False)

    async def _failed(self, pending: Pending, why: str, *, for_good: bool) -> bool:
        alarm = pending.alarm
        if for_good or is_over(pending, self._clock.wall_us(), self._give_up_us):
            _log.error("alarm-given-up: %s by %s: %s", alarm.id, self.way, why)
            if alarm.id not in self._given:
                await self._given_up(pending, self.way, why)
                self._given.add(alarm.id)
            try:
                self._settle(pending)
            except OSError as error:
                _log.warning("pending-not-removed: %s", error)
            else:
                return True
        self._in_a_row += 1
        self._failures[alarm.id] = self._failures.get(alarm.id, 0) + 1
        _log.warning("alarm-not-told: %s by %s, %d times in a row: %s", alarm.id, self.way, self._in_a_row, why)
        return False

    def _settle(self, pending: Pending) -> None:
        self._spool.done(pending, self.way)
        self._failures.pop(pending.alarm.id, None)
        self._given.discard(pending.alarm.id)

    async def _pause(self, seconds: float) -> None:
        """Something new is tried at once: it may be that only the last one cannot be told."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
