"""One connection to SQLite, one thread, and work that reaches it as closed units.

A unit is a plain function of the connection. It runs whole in the connection's thread, whatever becomes of the task
that asked for it, so a cancelled request cannot leave a transaction open.
"""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

import aiosqlite

from shared.database.log_mark import LogMark

T = TypeVar("T")


class Database(aiosqlite.Connection):
    """An aiosqlite connection that also runs units of work.

    `page_checksums` is `on`, or `off: ` and why. `mark` follows each unit of the connection that writes.
    """

    page_checksums: str = "off: the store is not open"
    mark: LogMark | None = None

    async def run(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in the connection's thread and give what it returns or raises."""
        result: T = await self._execute(self._marked, unit)  # type: ignore[no-untyped-call]
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
        await self._execute(self._checkpoint)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Let the files go; the log stays as it is."""
        await super().close()
        if self.mark is not None:
            self.mark.close()

    def _marked(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection = self._conn
        changes = connection.total_changes
        result = unit(connection)
        if self.mark is not None and connection.total_changes != changes:
            self.mark.follow(connection)
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
