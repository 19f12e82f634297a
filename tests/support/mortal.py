"""A process that dies between two statements: what its disk held at that moment is kept, for the next one to find."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from adapter.store.engine import Store


class KilledError(Exception):
    """The process is gone; nothing of it runs any more."""


class MortalConnection:
    """A connection that dies before its statement number `fatal`, counted from 0.

    A kill -9 leaves the files as the kernel has them: the database and its log, neither committed nor rolled back. So
    they are copied to `left` at that moment, and whatever this connection is told afterwards changes nothing of them.
    """

    def __init__(self, connection: sqlite3.Connection, store: Path, left: Path, fatal: int) -> None:
        self._connection = connection
        self._store = store
        self._left = left
        self._fatal = fatal
        self.statements: list[str] = []
        self.is_dead = False

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`, while it lives."""
        self._live_for(statement)
        return self._connection.execute(statement, *parameters)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`, while it lives."""
        self._live_for(statement)
        return self._connection.executemany(statement, rows)

    def _live_for(self, statement: str) -> None:
        if len(self.statements) == self._fatal and not self.is_dead:
            self.is_dead = True
            copy_store(self._store, self._left)
        if self.is_dead:
            raise KilledError
        self.statements.append(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def make_mortal(store: Store, path: Path, left: Path, fatal: int) -> MortalConnection:
    """From now on, the writer of an open store is mortal."""
    writer = store._writer
    assert writer is not None
    mortal = MortalConnection(writer._conn, path, left, fatal)
    writer._connection = mortal  # type: ignore[assignment]
    return mortal


def copy_store(path: Path, target: Path) -> None:
    """The database, its log, the log's mark and the store's witness at another place, and no others there. The
    shared-memory file is made anew by whoever opens it.
    """
    for suffix in ("", "-wal", "-mark", "-witness"):
        source, copy = path.with_name(path.name + suffix), target.with_name(target.name + suffix)
        copy.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, copy)
