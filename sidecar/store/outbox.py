"""The outbox: sends that wait for the adapter, durable and in order (promise 11)."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from shared.clock import Clock
from shared.envelope import content_sha256
from shared.problems import Problem
from shared.strict_json import encode
from shared.times import MICROSECONDS
from sidecar.core.drafts import Draft
from sidecar.core.link_outcome import Outcome, refused
from sidecar.core.outbox_bounds import OutboxBounds
from sidecar.store import outbox_units as units
from sidecar.store.outbox_units import Entry, Levels, Removed
from sidecar.store.store import Store, Unit

T = TypeVar("T")

_FIRST_TRY_US_MAX: Final = 3_600 * MICROSECONDS
"""By which a first, direct try may have come before the entry was made: far more than any timeout of the link."""


class Outbox:
    """`depth` counts what waits, `dead` what was refused for good, `oldest_us` is when the first that waits was queued;
    all follow the commits, and `changed` is called after each.

    What has waited for less than the bounds' age can be sent: the adapter remembers keys for longer than that, and so
    knows for certain whether it has the message already. What is older it might take twice.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        bounds: OutboxBounds,
        is_critical: Callable[[str], bool],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._is_critical = is_critical
        self._changed = changed
        self._levels = Levels()
        self._arriving = 0
        self._in_flight: set[int] = set()  # changed and read in the store's thread, between its units
        self.bounds = bounds

    @property
    def depth(self) -> int:
        """How many wait."""
        return self._levels.depth

    @property
    def dead(self) -> int:
        """How many were refused for good."""
        return self._levels.dead

    @property
    def oldest_us(self) -> int | None:
        """When the first that waits was queued, by the wall clock; None if none does."""
        return self._levels.oldest_us

    def is_in_flight(self, entry_id: int) -> bool:
        """Whether the entry is being sent just now."""
        return entry_id in self._in_flight

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is sent because one more that is refused could not be kept."""
        return self.dead >= self.bounds.dead_max

    async def load(self) -> None:
        """Read the counts of an earlier run; before anything else."""
        self._levels = await self._store.read(units.levels)

    @property
    def occupied(self) -> bool:
        """Whether anything waits or is about to: then a later send must join, or it would overtake."""
        return self.depth + self._arriving > 0

    def add(self, draft: Draft) -> "asyncio.Future[Outcome]":
        """Commit a send behind all earlier ones; the outcome is 202, or why not. Cancelling it does not undo it."""
        digest = content_sha256(draft.envelope)
        now_us = self._clock.wall_us()
        critical = self._is_critical(draft.envelope["type"])
        return self._queue(lambda c: units.insert(c, draft, digest, now_us, self.bounds, critical=critical))

    def resend(self, key: str, new_key: str | None) -> "asyncio.Future[Outcome]":
        """Commit a refused send behind all that wait, under its own key or a new one; as `add`."""
        now_us = self._clock.wall_us()
        return self._queue(lambda c: units.resend(c, key, new_key, now_us, self.bounds, self._is_critical))

    async def drop(self, key: str) -> Removed:
        """Throw away a waiting or a refused send; raises `in-flight`, `not-found` or `store-unavailable`."""
        removed = await self._commit(lambda connection: units.drop(connection, key, self._in_flight))
        if isinstance(removed, Problem):
            raise removed
        return removed

    @contextlib.asynccontextmanager
    async def taken(self, count_max: int) -> AsyncIterator[list[Entry]]:
        """The oldest entries that fit one batch; nobody drops them while the block lasts.

        They are no more than could be set aside, were all of them refused.
        """
        count = min(count_max, max(0, self.bounds.dead_max - self.dead))

        def take(connection: sqlite3.Connection) -> list[Entry]:
            entries = units.read_head(connection, count)
            self._in_flight.update(entry.id for entry in entries)
            return entries

        try:
            yield await self._store.read(take)
        finally:
            self._in_flight.clear()

    def overdue(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that have waited for too long, by a wall clock that may be wrong."""
        now_us = self._clock.wall_us()
        return [entry for entry in entries if now_us - entry.queued_at_us > self.bounds.age_us_max]

    async def settle(self, done: Sequence[Entry], dead: Sequence[tuple[Entry, dict[str, Any]]]) -> None:
        """Forget what the adapter has, and set aside what it refused for good, in one transaction."""
        now_us = self._clock.wall_us()
        gone = [entry.id for entry in done]
        buried = [(entry.id, encode(problem)) for entry, problem in dead]
        await self._commit(lambda connection: units.settle(connection, gone, buried, now_us))

    async def arrived(self) -> None:
        """Wait until what is on its way in has been committed."""
        await self._store.settled()

    def _queue(self, unit: Unit[Outcome]) -> "asyncio.Future[Outcome]":
        self._arriving += 1
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._commit(unit).add_done_callback(partial(self._arrived, outcome))
        return outcome

    def _arrived(self, outcome: "asyncio.Future[Outcome]", committed: "asyncio.Future[Outcome]") -> None:
        self._arriving -= 1
        fault = committed.exception()
        if fault is None:
            result = committed.result()
        else:
            result = refused(fault if isinstance(fault, Problem) else Problem("internal", repr(fault)))
        if not outcome.done():
            outcome.set_result(result)

    def _commit(self, unit: Unit[T]) -> "asyncio.Future[T]":
        """Commit a unit, and know how much there is after it before anybody has its result."""

        def measured(connection: sqlite3.Connection) -> tuple[T, Levels]:
            return unit(connection), units.levels(connection)

        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._store.commit(measured).add_done_callback(partial(self._committed, result))
        return result

    def _committed(self, result: "asyncio.Future[T]", committed: "asyncio.Future[tuple[T, Levels]]") -> None:
        fault = committed.exception()
        if fault is None:
            self._levels = committed.result()[1]
        self._changed()
        if result.done():  # whoever waited has gone
            return
        if fault is None:
            result.set_result(committed.result()[0])
        else:
            result.set_exception(fault)


def older_than(entries: Sequence[Entry], forgotten_us: int) -> list[Entry]:
    """Those that the adapter may have taken before it began to remember: a first try may be older than its entry."""
    return [entry for entry in entries if entry.queued_at_us - _FIRST_TRY_US_MAX < forgotten_us]
