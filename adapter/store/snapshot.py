"""One reading on one snapshot, which does not last: what a snapshot keeps in the log cannot leave it meanwhile."""

import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

from adapter.store.names import Names
from shared.database import SqliteError
from shared.problems import Problem

T = TypeVar("T")

SNAPSHOT_SECONDS_MAX: Final = 10.0
"""For one reading, by the process's own steady clock. Pages of a million messages take some milliseconds."""

_LOOK_OPERATIONS: Final = 10_000
"""Of SQLite's machine, under a millisecond, between two looks at the clock. Readings of many small statements are
bounded by their number."""


def on_snapshot(connection: sqlite3.Connection, names: Names, unit: Callable[[sqlite3.Connection, Names], T]) -> T:
    """What the unit gives; all that it asks is answered as of its first question. One that takes too long is ended, and
    raises `store-unavailable`."""
    ends_at = time.monotonic() + SNAPSHOT_SECONDS_MAX
    connection.set_progress_handler(lambda: time.monotonic() > ends_at, _LOOK_OPERATIONS)
    connection.execute("BEGIN")  # deferred
    try:
        return unit(connection, names)
    except SqliteError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
            raise
        detail = f"Reading this took more than {SNAPSHOT_SECONDS_MAX:g} s and was ended. Ask for less, or retry."
        raise Problem("store-unavailable", detail, retry_after=SNAPSHOT_SECONDS_MAX) from error
    finally:
        connection.set_progress_handler(None, 0)
        if connection.in_transaction:  # SQLite ends it itself for some errors, and this one's would hide the first
            connection.execute("COMMIT")
