"""Copies of the store that is open, made beside its work: one at a time, in a thread of its own, and given up as soon
as the store is closed."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from shared.database import Rest
from shared.problems import Problem

T = TypeVar("T")


class GivenUpError(Exception):
    """The store was closed, or nobody waits for the copy any more."""


class Copying:
    """The connection that copies are made over. The store tells what becomes of it."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._given_up = threading.Event()
        self._copying: asyncio.Future[Any] | None = None

    def opened(self, connection: sqlite3.Connection) -> None:
        """This one writes from now on."""
        self._connection = connection

    async def closed(self) -> None:
        """It is about to be closed: what is being copied is given up, within the time of a step."""
        self._connection = None
        await self._give_up()

    async def copy(self, unit: Callable[[sqlite3.Connection, Rest], T]) -> T:
        """Run `unit`, which copies and rests in between; raises what it raises, `GivenUpError`, or
        `store-unavailable` while the store is not open.
        """
        connection = self._connection
        if connection is None:
            raise Problem("store-unavailable", "The store is not open; retry once it is.")
        if self._copying is not None and not self._copying.done():
            raise RuntimeError("one copy at a time")
        self._given_up.clear()
        copying = self._copying = asyncio.ensure_future(asyncio.to_thread(unit, connection, self._rest))
        try:
            return await asyncio.shield(copying)
        except asyncio.CancelledError:
            await self._give_up()
            raise

    def _rest(self, seconds: float) -> None:
        if self._given_up.wait(seconds):
            raise GivenUpError

    async def _give_up(self) -> None:
        self._given_up.set()
        if self._copying is not None and not self._copying.done():
            await asyncio.wait({self._copying})
            self._copying.exception()  # whoever waits for it has it from there; nobody may be waiting any more
