"""A test's own hand in a store: as its process would open it, page checksums and all, but by SQLite alone.

Python's own SQLite would write pages without checksums, and the store would rightly be refused afterwards.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import lz4.block

from shared.database import library_checksums
from shared.database.library import LIBRARY
from shared.database.log_mark import LogMark


def reading(path: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection that only reads, beside whoever has the store open, in this process or another.

    It is of the adapter's own library: two libraries in one process take each other's locks away when they close a
    file (https://sqlite.org/howtocorrupt.html, section 2.2), and the log's index is then cut under its users.
    """
    connection: sqlite3.Connection = LIBRARY.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    return contextlib.closing(connection)


def as_sent(column: bytes) -> bytes:
    """The envelope of a row, by the words of its form and not by the adapter's code."""
    return lz4.block.decompress(column[1:]) if column.startswith(b"\x01") else bytes(column)


def unsoundness(connection: sqlite3.Connection) -> Iterator[str]:
    """What SQLite's own check of the whole file says, unless that is nothing."""
    words = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if words != "ok":
        yield f"integrity_check says {words}"


@contextlib.contextmanager
def holding(path: Path) -> Iterator[sqlite3.Connection]:
    """The write lock of a store, whoever else has it open. As it closes it leaves the log as it is.

    Python's own SQLite, where it is the last to close, moves the log into the store without checksums.
    """
    library_checksums()
    with contextlib.closing(LIBRARY.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def looking_at(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that verifies pages; raises what SQLite raises, also for the false alarm that commits are lost."""
    library_checksums()
    mark = LogMark(path)
    with contextlib.closing(LIBRARY.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA application_id").fetchone()  # the first read, which reads the log
        missing = mark.missing(connection)
        if missing is not None:
            raise LIBRARY.DatabaseError(f"a false alarm: {missing}")
        yield connection
