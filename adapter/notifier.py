"""The notifier: tells of each message to the Human Governor after its commit, by the journal, a command, a webhook.

Each of these ways has a mark in the store, up to which it has told; it is moved after the telling, so that a crash in
between tells again, and none is left out. The ways do not wait for each other, and nothing waits for them.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from adapter.broker import Broker
from adapter.core.commands import Announced
from adapter.core.notice import Notice, notice_of, retry_seconds
from adapter.store.engine import Store
from adapter.store.inbox import read_newer, read_start
from shared.background import beside
from shared.problems import Problem

_log = logging.getLogger(__name__)

_NOTICES_MAX: Final = 10
"""Read at once: with the largest of envelopes, a few mebibytes."""

Tell = Callable[[Notice], Awaitable[None]]
"""Tells of one message; raises `NotToldError` when that did not succeed and is to be tried again."""


class NotToldError(Exception):
    """Why nobody was told."""


class Notifier:
    """Runs every way. `troubles` says which of them fails, and why."""

    def __init__(self, broker: Broker, store: Store, ways: Mapping[str, Tell]) -> None:
        self._broker = broker
        self._store = store
        self._ways = ways
        self._news = {way: asyncio.Event() for way in ways}
        self._failing: dict[str, str] = {}
        broker.on_letter = self._wake

    @property
    def troubles(self) -> list[str]:
        """For a human: one sentence for each way that does not work now."""
        return [f"the Human Governor is not told by {way}: {why}" for way, why in self._failing.items()]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell while the block lasts. What is being told when it ends is cut short; the next process tells it again."""
        async with beside(*(self._run(way, tell) for way, tell in self._ways.items())):
            yield

    def _wake(self) -> None:
        for event in self._news.values():
            event.set()

    async def _run(self, way: str, tell: Tell) -> None:
        failures = 0
        while True:
            try:
                await self._tell_all(way, tell)
            except (NotToldError, Problem) as error:
                failures += 1
                if isinstance(error, NotToldError):
                    self._failing[way] = str(error)
                    _log.warning("governor-not-told: by %s, %d times in a row: %s", way, failures, error)
                await asyncio.sleep(retry_seconds(failures))
            except Exception:  # a fault of ours must not silence this way until the next start
                failures += 1
                _log.exception("governor-not-told: by %s", way)
                await asyncio.sleep(retry_seconds(failures))
            else:
                failures = 0
                await self._news[way].wait()

    async def _tell_all(self, way: str, tell: Tell) -> None:
        self._news[way].clear()
        mark: int | None = await self._broker.ask(Announced(way))
        if mark is None:  # a way that is new begins with what no human has read
            mark = await self._broker.ask(Announced(way, await self._store.read(read_start)))
        while rows := await self._newer(mark or 0):
            for sequence, envelope in rows:
                await tell(notice_of(sequence, envelope))
                self._failing.pop(way, None)
                mark = await self._broker.ask(Announced(way, sequence))

    async def _newer(self, mark: int) -> list[tuple[int, bytes]]:
        return await self._store.read(lambda db, names: read_newer(db, names, mark, _NOTICES_MAX))
