"""What is to be told, by whom, and what is said when it could not be: between the tail and the ways to tell."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.delivery import Pending, overflowing
from multiclaw.watch.progress import Progress
from multiclaw.watch.spool import Spool
from multiclaw.watch.teller import Teller
from multiclaw.watch.ways import Tell, is_agent_way
from shared.background import beside
from shared.clock import Clock
from shared.journal import Entry, Journal
from shared.journal_events import EVENTS, WATCH_UNDELIVERED, JournalEvent
from shared.times import MICROSECONDS

_OWN: Final = frozenset(event.name for event in EVENTS if event.writers == ("watch",))
"""What the watcher says of itself: it pushes no alarm out, else a full spool would fill itself for ever."""

_OVERFLOW_SECONDS: Final = 3_600.0
"""How often it is said that a way gives up its oldest alarms for newer ones."""

_OVERFLOW: Final = "too many newer alarms wait"


class Outbox:
    """The spool in `folder` and a teller for each of the ways."""

    def __init__(
        self, folder: Path, ways: Mapping[str, Tell], journal: Journal, clock: Clock, give_up_hours: float
    ) -> None:
        """Raises `OSError` where the folder cannot be used."""
        self._folder = folder
        self._journal = journal
        self._clock = clock
        self._spool = Spool(folder, ways)
        give_up_us = int(give_up_hours * 3_600 * MICROSECONDS)
        self._tellers = [
            Teller(way, tell, self._spool, clock, give_up_us, self._given_up) for way, tell in ways.items()
        ]
        self._overflow_us: dict[str, int] = {}

    @property
    def depth(self) -> int:
        """How many alarms wait to be told."""
        return len(self._spool.pending)

    async def put(self, alarm: Alarm) -> None:
        """Keep an alarm until all who are to be told have been; raises `OSError` where the disk does not take it."""
        wanted = [teller.way for teller in self._tellers if _is_for(teller.way, alarm)]
        ways = [way for way in wanted if await self._has_room(way, alarm)]
        if ways:
            self._spool.put(alarm, ways, self._clock.wall_us())

    def save(self, progress: Progress) -> None:
        """Keep how far the tail has come, and tell what was put; raises `OSError`."""
        progress.save(self._folder)
        for teller in self._tellers:
            teller.wake()

    async def record(self, event: JournalEvent, message: str, kind: str, details: dict[str, Any]) -> None:
        """Write an entry of our own, where the tail will find it."""
        await self._journal.record(Entry(event, message, kind, "", details))

    @asynccontextmanager
    async def telling(self, begun: asyncio.Event) -> AsyncIterator[None]:
        """Tell while the block lasts, once the tail has begun. What is cut short is told again by the next process."""
        async with beside(*(_run(teller, begun) for teller in self._tellers)):
            yield

    async def _has_room(self, way: str, alarm: Alarm) -> bool:
        """Whether the alarm may wait for the way; the oldest that do are given up for it."""
        oldest = overflowing(way, self._spool.pending)
        if oldest and alarm.event in _OWN:
            return False
        for pending in oldest:
            now_us = self._clock.steady_us()
            if now_us - self._overflow_us.get(way, -(2**62)) > _OVERFLOW_SECONDS * MICROSECONDS:
                self._overflow_us[way] = now_us
                await self._given_up(pending, way, _OVERFLOW)
            self._spool.done(pending, way)
        return True

    async def _given_up(self, pending: Pending, way: str, why: str) -> None:
        details = {"way": way, "reason": why, "alarm": pending.alarm.payload()}
        message = f"an alarm is not told by {way}: {why}: {pending.alarm.summary[:200]}"
        await self.record(WATCH_UNDELIVERED, message, way, details)


def _is_for(way: str, alarm: Alarm) -> bool:
    return way != alarm.except_way and (alarm.for_agents or not is_agent_way(way))


async def _run(teller: Teller, begun: asyncio.Event) -> None:
    await begun.wait()
    await teller.run()
