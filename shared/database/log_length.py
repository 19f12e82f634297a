"""How long the log of an open store is, and how much of it cannot be brought into the file.

A connection that holds a snapshot keeps whatever was committed after it in the log, however long that becomes, and so
does a disk that fails a checkpoint (https://sqlite.org/wal.html, "Avoiding Excessively Large WAL Files").
"""

import sqlite3
from pathlib import Path

from shared.database.library import SqliteError
from shared.database.log_mark import FRAME_HEADER_BYTES


def log_bytes(store: Path) -> int:
    """The length of the log's file, which is also what a checkpoint left of it to be written over; 0 without one."""
    try:
        return store.with_name(store.name + "-wal").stat().st_size
    except OSError:
        return 0


def stuck_bytes(connection: sqlite3.Connection, store: Path) -> int:
    """How much of the log is not in the file after one more try, by the connection that writes, outside of a
    transaction. That waits for nobody, and where there is nothing to do it only looks."""
    page_bytes: int = connection.execute("PRAGMA page_size").fetchone()[0]
    try:
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except SqliteError:  # the disk fails: nothing can leave the log
        return log_bytes(store)
    stuck: int = max(0, frames - moved) * (page_bytes + FRAME_HEADER_BYTES)
    return stuck
