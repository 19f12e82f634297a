"""Connections that do their work inline, at a cost in virtual time, and disks that fail or whose process has died."""

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

from shared.database import SqliteError
from shared.database.log_mark import LogMark

_UNIT_SECONDS_MAX = 0.004
"""What a commit costs on a disk of the usual kind."""


class KilledError(Exception):
    """The process is gone; nothing of it reaches the disk any more."""


@dataclass(slots=True)
class Disk:
    """The disk as one process sees it. `failing` is the share of units that fail, before or after their commit."""

    rng: random.Random
    dead: bool = False
    failing: float = 0.0
    open: set["InlineDatabase"] = field(default_factory=set)

    def unplug(self) -> None:
        """The process is killed: what is not committed now never will be, and its locks fall."""
        self.dead = True
        for database in list(self.open):
            database.drop()


current_disk: ContextVar[Disk] = ContextVar("current_disk")


class InlineDatabase:
    """Stands in for `shared.database.Database`."""

    page_checksums = "off: the store is not open"
    ended = False
    mark: LogMark | None = None

    def __init__(self, connector: Callable[[], sqlite3.Connection], **_: Any) -> None:
        self._connector = connector
        self._disk = current_disk.get()
        self._connection: sqlite3.Connection | None = None

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def _open(self) -> Self:
        await self._take_time()
        self._connection = self._connector()
        self._disk.open.add(self)
        return self

    async def run(self, unit: Callable[[sqlite3.Connection], Any]) -> Any:
        """The unit, whole, after a moment; a failing disk fails it before it began or after it was committed."""
        await self._take_time()
        connection = self._connection
        assert connection is not None
        disk = self._disk
        if disk.rng.random() < disk.failing:
            if disk.rng.random() < 0.5:
                unit(connection)
            raise SqliteError("disk I/O error")
        return unit(connection)

    @property
    def raw(self) -> sqlite3.Connection:
        """As `Database.raw`."""
        assert self._connection is not None
        return self._connection

    async def settle(self) -> None:
        """The log is left to the next opening, as after a kill."""

    async def close(self) -> None:
        """As a process that ends in peace does."""
        if not self._disk.dead:
            await self._take_time()
        self.drop()

    def drop(self) -> None:
        """Let the file go."""
        self._disk.open.discard(self)
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    async def _take_time(self) -> None:
        await asyncio.sleep(self._disk.rng.uniform(0, _UNIT_SECONDS_MAX))
        if self._disk.dead:
            raise KilledError
