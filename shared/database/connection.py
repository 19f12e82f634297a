"""One connection to SQLite, one thread, and work that reaches it as closed units.

A unit is a plain function of the connection. It runs whole in the connection's thread, whatever becomes of the task
that asked for it, so a cancelled request cannot leave a transaction open.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Self, TypeVar, cast

import aiosqlite

from shared.database.log_mark import LogMark

T = TypeVar("T")


class ThreadEnded(Exception):  # noqa: N818 - what has happened
    """The thread of a connection is gone: what waited for it was not answered, and only a new connection will be."""


class Database(aiosqlite.Connection):
    """An aiosqlite connection that also runs units of work.

    `page_checksums` is `on`, or `off: ` and why. `mark` follows each unit of the connection that writes.
    `after_first_commit` is called once, in the thread, when a unit has shown that the disk takes writes.

    aiosqlite waits for ever for a thread that has ended, as one may that has no memory left. Here everybody who waits
    is told `ThreadEnded`, and so is everybody who comes later.
    """

    page_checksums: str = "off: the store is not open"
    mark: LogMark | None = None
    after_first_commit: Callable[[], None] | None = None

    def __init__(self, connector: Callable[[], sqlite3.Connection], iter_chunk_size: int) -> None:
        super().__init__(connector, iter_chunk_size)
        self._waiting: set[asyncio.Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._thread.run = partial(self._work, self._thread.run)  # type: ignore[method-assign]

    def __await__(self) -> Generator[Any, None, Self]:
        self._loop = asyncio.get_running_loop()
        return cast("Generator[Any, None, Self]", super().__await__())

    @property
    def ended(self) -> bool:
        """Whether its thread is gone though nobody has closed it."""
        return self._ended

    async def run(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in the connection's thread and give what it returns or raises; raises `ThreadEnded`."""
        result: T = await self._execute(self._marked, unit)
        return result

    @property
    def raw(self) -> sqlite3.Connection:
        """For a copy that is made beside the units, from a thread of its own (`shared/database/backup.py`)."""
        connection: sqlite3.Connection = self._conn
        return connection

    async def settle(self) -> None:
        """Bring the log into the database file and empty it: before a store is closed that is well.

        One that is closed without it keeps its log, and the next opening reads from there what was committed.
        """
        await self._execute(self._checkpoint)

    async def close(self) -> None:
        """Let the files go; the log stays as it is."""
        if self._ended and self._connection is not None:
            connection, self._connection, self._running = self._connection, None, False
            await asyncio.to_thread(connection.close)
        await super().close()
        if self.mark is not None:
            self.mark.close()

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """See `aiosqlite.Connection`, whose every method comes here; this one also ends when the thread does."""
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        if self._ended:
            raise ThreadEnded("the thread of the store's connection has ended")
        asked = asyncio.get_running_loop().create_future()
        self._waiting.add(asked)
        self._tx.put_nowait((asked, partial(fn, *args, **kwargs)))
        try:
            return await asked
        finally:
            self._waiting.discard(asked)

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                    self._loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        self._ended = self._running
        for asked in self._waiting:
            if not asked.done():
                asked.set_exception(ThreadEnded("the thread of the store's connection has ended"))

    def _marked(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection = self._conn
        changes = connection.total_changes
        result = unit(connection)
        if connection.total_changes != changes:
            if self.mark is not None:
                self.mark.follow(connection)
            if self.after_first_commit is not None:
                after, self.after_first_commit = self.after_first_commit, None
                after()
        return result

    def _checkpoint(self) -> None:
        if self.mark is not None:
            self.mark.clear()
        self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class transaction:  # noqa: N801 - a context manager, used like a function
    """An immediate transaction: committed at the end of the block, rolled back when it raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:  # a COMMIT that fails may leave the transaction open, and with it every later BEGIN refused
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
