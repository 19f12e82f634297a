"""The sidecar watches itself: what an operator must hear of goes to the journal when it begins, lasts and ends.

It looks when something has changed and when something is due, and sleeps in between. While the store fails it is tried
every few seconds, so that the end of that is noticed though nobody writes.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any, Final

from shared.clock import Clock
from shared.journal import Entry, Journal
from shared.journal_events import CLEARED, CRITICAL
from shared.problems import Problem
from shared.times import MICROSECONDS, iso
from sidecar.breaker import LinkBreaker
from sidecar.changes import Changes
from sidecar.core.conditions import CONDITIONS, Active, Facts, Notice, due_us, step
from sidecar.counters import Counters
from sidecar.health_poller import HealthPoller
from sidecar.link import Link
from sidecar.store import conditions as stored
from sidecar.store.outbox import Outbox
from sidecar.store.store import STUCK_BYTES_MAX, Store

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
"""How often a store that fails is tried."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts that tell how the sidecar is."""

    clock: Clock
    breaker: LinkBreaker
    poller: HealthPoller
    link: Link
    outbox: Outbox
    store: Store
    away_us_max: int

    def facts(self) -> Facts:
        """As they are now."""
        oldest_us = self.outbox.oldest_us
        breaker, reachable = self.breaker, self.poller.reachable
        answers = not breaker.is_away and (self.link.believed or not self.outbox.depth)
        return Facts(
            now_us=self.clock.steady_us(),
            reachable=reachable,
            closed=breaker.closed,
            well=reachable and breaker.closed and answers,
            away_us=breaker.away_us(),
            quiet_at_us=breaker.quiet_at_us(),
            away_us_max=self.away_us_max,
            depth=self.outbox.depth,
            dead=self.outbox.dead,
            oldest_age_us=None if oldest_us is None else self.clock.wall_us() - oldest_us,
            bounds=self.outbox.bounds,
            stuck_bytes_max=STUCK_BYTES_MAX,
            bad_answer_us=self.link.bad_answer_us,
            believed=self.link.believed,
            store_fault=self.store.fault,
            store_failed_us=self.store.failed_us,
            stuck_bytes=self.store.stuck_bytes,
        )


class Monitor:
    """Tells of conditions; `load` first. `lasting` are those of now."""

    def __init__(self, agent: str, watched: Watched, changes: Changes, journal: Journal, counters: Counters) -> None:
        self._agent = agent
        self._watched = watched
        self._changes = changes
        self._journal = journal
        self._counters = counters
        self._active: dict[str, Active] = {}
        self._saved: dict[str, Active] = {}
        self._try_us = 0

    @property
    def lasting(self) -> list[dict[str, Any]]:
        """Each condition that lasts, as the API's `LastingCondition`."""
        facts = self._watched.facts()
        return [
            {
                "condition": condition.name,
                "severity": "critical" if condition.event.priority == CRITICAL else "warning",
                "since": iso(self._active[condition.name].since_us),
                "detail": condition.words(facts),
            }
            for condition in CONDITIONS
            if condition.name in self._active
        ]

    @property
    def by_condition(self) -> dict[str, bool]:
        """Of each that there is, whether it lasts."""
        return {condition.name: condition.name in self._active for condition in CONDITIONS}

    async def load(self) -> None:
        """Read what lasted when the process before ended."""
        self._active = await stored.load(self._watched.store, self._watched.clock.steady_us())
        self._saved = dict(self._active)

    async def run(self) -> None:
        """For ever; cancel it to end it. A look that has begun ends first: what was told is stored as told."""
        while True:
            look = asyncio.ensure_future(self._look())
            try:
                await asyncio.shield(look)
            except asyncio.CancelledError:
                await asyncio.wait({look})
                raise
            except Exception:  # whatever it was, the next change comes
                _log.exception("conditions-failed")
            await self._changes.wait(self._seconds())

    def _seconds(self) -> float | None:
        facts = self._watched.facts()
        if facts.store_fault is not None:
            return _RETRY_SECONDS
        due = due_us(self._active, facts)
        return None if due is None else max(0, due - facts.now_us) / MICROSECONDS

    async def _look(self) -> None:
        store = self._watched.store
        await self._try(store)
        await store.look_at_log()
        taken = step(self._active, self._watched.facts())
        self._active = taken.active
        for notice in taken.notices:
            await self._tell(notice)
        if self._active != self._saved and store.fault is None:
            with contextlib.suppress(Problem):  # then a restart tells of it again, once
                await store.commit(stored.save(self._active))
                self._saved = dict(self._active)

    async def _try(self, store: Store) -> None:
        """Whether a store that failed takes writes again; not at every look, which its failures cause as well."""
        now_us = self._watched.clock.steady_us()
        if store.fault is not None and now_us >= self._try_us:
            self._try_us = now_us + int(_RETRY_SECONDS * MICROSECONDS)
            with contextlib.suppress(Problem):  # it fails still
                await store.check()

    async def _tell(self, notice: Notice) -> None:
        """To the journal, and to the log for who reads only that."""
        name, since_us = notice.condition.name, notice.active.since_us
        lasted_seconds = (self._watched.clock.steady_us() - since_us) / MICROSECONDS
        details: dict[str, Any] = {"stage": notice.stage, "since": iso(since_us), "times": notice.active.times}
        details["seconds"] = lasted_seconds
        if notice.stage == "cleared":
            entry = Entry(CLEARED, f"{name} is over, after {lasted_seconds:.0f} s.", name, self._agent, details)
        else:
            entry = Entry(notice.condition.event, notice.words, name, self._agent, details)
        self._counters.conditions_told += 1
        _log.warning("condition-%s: %s: %s", notice.stage, name, entry.message)
        await self._journal.record(entry)
