"""One table of messages, in the order of their commits, and the place of each receiver in it."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from shared.database import BUSY_STORE, Database, transaction
from shared.database.library import LIBRARY
from shared.group_commit import GroupCommit

_SETTINGS: Final = (
    f"cache_size=-{BUSY_STORE.cache_bytes // 1024}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=4000",  # as many frames fit the log as it is written ahead
)
"""With pages of 8,192 bytes those of the adapter's store, as far as they cost or save time."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, destination TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_destination ON messages (destination, id);
CREATE TABLE IF NOT EXISTS places (
    receiver TEXT, destination TEXT, id INTEGER NOT NULL, PRIMARY KEY (receiver, destination)
) WITHOUT ROWID;
"""
_APPEND: Final = "INSERT INTO messages (destination, body) VALUES (?, ?)"
_PLACE: Final = """
INSERT INTO places VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET id = excluded.id WHERE excluded.id > id
"""
_READ: Final = """
SELECT id, body FROM messages
WHERE destination = ? AND id > coalesce((SELECT id FROM places WHERE receiver = ? AND destination = ?), 0)
ORDER BY id LIMIT ?
"""

Unit = Callable[[sqlite3.Connection], Any]
Rows = list[tuple[int, bytes]]
"""Id and body of messages, in order."""


class Log:
    """What is asked for in one turn, or while a commit runs, shares a commit; answers come after its sync."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits: GroupCommit[Unit, Any] = GroupCommit(self._apply)

    async def append(self, to: str, bodies: Sequence[bytes]) -> None:
        """Add messages to a destination."""
        rows = [(to, body) for body in bodies]
        await self._commits.submit(lambda connection: connection.executemany(_APPEND, rows))

    async def read(self, receiver: str, of: str, after: int, most: int) -> Rows:
        """Put the place of a receiver behind the id `after`, unless it is further on, and give what comes next."""

        def unit(connection: sqlite3.Connection) -> Rows:
            if after:
                connection.execute(_PLACE, (receiver, of, after))
            return connection.execute(_READ, (of, receiver, of, most)).fetchall()

        rows: Rows = await self._commits.submit(unit)
        return rows

    async def _apply(self, units: list[Unit]) -> list[Any]:
        return await self._database.run(partial(_commit, units))


def connect(path: Path) -> sqlite3.Connection:
    """The one connection to the table at `path`, which is made where it is not."""
    connection: sqlite3.Connection = LIBRARY.connect(str(path), isolation_level=None)
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA page_size=8192")
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    connection.executescript(_SCHEMA)
    with path.with_name(path.name + "-wal").open("ab") as log:  # as ours: an overwrite costs less to sync
        log.write(bytes(max(0, BUSY_STORE.wal_bytes - log.tell())))
    return connection


def _commit(units: Sequence[Unit], connection: sqlite3.Connection) -> list[Any]:
    with transaction(connection):
        return [unit(connection) for unit in units]
