"""SQLite through aiosqlite: one connection, one thread, and work that reaches it as closed units.

A unit is a plain function of the connection. It runs whole in the connection's thread, whatever becomes of the task
that asked for it, so a cancelled request cannot leave a transaction open.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import aiosqlite

from shared.config import ConfigurationFault
from shared.database.library import LIBRARY

T = TypeVar("T")

_PAGE_BYTES: Final = 8192  # three rows of the mean 2 KB share a page; at 4,096 each row takes a page of its own
_FRAME_BYTES: Final = _PAGE_BYTES + 24  # a page in the log has a header (https://sqlite.org/fileformat2.html, 4.1)
_FRAMES_SPARE: Final = 64  # a commit may pass the mark by its own pages before the checkpoint starts
_WAL_BYTES_MAX: Final = 64 * 1024 * 1024
_BUSY_MS: Final = 1_000  # nobody else writes: a lock that is kept for longer is trouble, and a stop would wait for it
_ZEROS: Final = bytes(1024 * 1024)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a store is given of memory and disk.

    The log is written ahead to `wal_bytes` once and then overwritten in place: to sync an overwrite costs a third of
    syncing an append, which also has to record the file's new size. When it is full, a checkpoint empties it.
    """

    wal_bytes: int
    cache_bytes: int


BUSY_STORE: Final = Tuning(wal_bytes=32 * 1024 * 1024, cache_bytes=16 * 1024 * 1024)
"""For the adapter: checkpoints so rare that their stall leaves the 99th percentile alone."""

QUIET_STORE: Final = Tuning(wal_bytes=2 * 1024 * 1024, cache_bytes=2 * 1024 * 1024)
"""For a sidecar, of which there are as many as agents, and whose store is idle while the adapter is there."""


class Database(aiosqlite.Connection):
    """An aiosqlite connection that also runs units of work."""

    async def run(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in the connection's thread and give what it returns or raises."""
        result: T = await self._execute(unit, self._conn)  # type: ignore[no-untyped-call]
        return result


async def open_database(path: Path, schema: str, tuning: Tuning = QUIET_STORE) -> Database:
    """An open database at `path` with `schema` applied. The file is private from birth."""

    def connect() -> sqlite3.Connection:
        _create(path)
        connection: sqlite3.Connection = LIBRARY.connect(
            os.fspath(path), isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
        )
        for pragma in (
            f"page_size={_PAGE_BYTES}",
            "auto_vacuum=INCREMENTAL",  # of a file that is new: it can then be made smaller bit by bit
            "journal_mode=WAL",
            "synchronous=FULL",
            f"wal_autocheckpoint={tuning.wal_bytes // _FRAME_BYTES - _FRAMES_SPARE}",
            f"journal_size_limit={_WAL_BYTES_MAX}",
            f"cache_size=-{tuning.cache_bytes // 1024}",
            "temp_store=MEMORY",
            "mmap_size=0",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.executescript(schema)
        _write_log_ahead(path.with_name(path.name + "-wal"), tuning.wal_bytes)
        return connection

    database = Database(connect, iter_chunk_size=64)
    try:
        await database
    except BaseException:
        # aiosqlite ends its thread, but does not wait: it would answer to a loop that may be closed by then.
        await asyncio.to_thread(database._thread.join)
        raise
    return database


def _create(path: Path) -> None:
    """Make the file, private, where there is none.

    One that exists is not even opened: closing any descriptor of it would drop the locks that another connection of
    this process holds on it (fcntl(2), "Record locks").
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if path.is_symlink() or not path.is_file():
            raise ConfigurationFault(f"{path} is a symbolic link or a directory; a store is a plain file") from None


def _write_log_ahead(log: Path, size: int) -> None:
    """Lengthen the log with zeros, which SQLite takes for its end. A full disk is no reason not to start."""
    with log.open("ab") as file:
        before = file.tell()
        try:
            for start in range(before, size, len(_ZEROS)):
                file.write(_ZEROS[: size - start])
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)


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
