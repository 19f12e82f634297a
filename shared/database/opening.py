"""How a store is opened: private files, durable settings, and proof that nothing of it is missing."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from shared.config import ConfigurationFault
from shared.database.checksums import APPLICATION_ID, judge_store, library_checksums
from shared.database.connection import Database
from shared.database.damage import Damage
from shared.database.library import LIBRARY
from shared.database.log_mark import CAN_MARK, FRAME_HEADER_BYTES, LogMark, readable_bytes
from shared.database.migrations import Migration, is_empty, migrate, plan, version_of

T = TypeVar("T")

_PAGE_BYTES: Final = 8192  # three rows of the mean 2 KB share a page; at 4,096 each row takes a page of its own
_FRAME_BYTES: Final = _PAGE_BYTES + FRAME_HEADER_BYTES
_FRAMES_SPARE: Final = 64  # a commit may pass the mark by its own pages before the checkpoint starts
_WAL_BYTES_MAX: Final = 64 * 1024 * 1024
_BUSY_MS: Final = 1_000  # nobody else writes: a lock that is kept for longer is trouble, and a stop would wait for it
_ZEROS: Final = bytes(1024 * 1024)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a store is given of memory and disk.

    The log is written ahead to `wal_bytes` once, after the first commit, and then overwritten in place: to sync an
    overwrite costs a third of syncing an append, which also has to record the file's new size. When it is full, a
    checkpoint empties it.
    """

    wal_bytes: int
    cache_bytes: int

    @property
    def stuck_bytes_max(self) -> int:
        """How much of the log may be kept from the file before somebody is told: four logs, where a reader that lasts
        for a moment keeps less than one."""
        return 4 * self.wal_bytes


BUSY_STORE: Final = Tuning(wal_bytes=32 * 1024 * 1024, cache_bytes=16 * 1024 * 1024)
"""For the adapter: checkpoints so rare that their stall leaves the 99th percentile alone."""

QUIET_STORE: Final = Tuning(wal_bytes=2 * 1024 * 1024, cache_bytes=2 * 1024 * 1024)
"""For a sidecar, of which there are as many as agents, and whose store is idle while the adapter is there."""


async def open_database(
    path: Path, schema: str, tuning: Tuning = QUIET_STORE, migrations: Sequence[Migration] = ()
) -> Database:
    """The database at `path`, made if absent or brought to the version of `migrations`, with `schema` applied, for the
    one connection that writes.

    The files are private from birth. Raises `Damage` where commits are missing or pages go unchecked, what SQLite
    raises, and `ConfigurationFault`; a file that was there is then as it was.
    """

    def connect(database: Database) -> sqlite3.Connection:
        _create(path)
        library = library_checksums()
        mark = LogMark(path) if CAN_MARK else None
        connection = _connect(path, tuning)
        application_id = _ask(connection, "application_id")  # the first read: SQLite has read its log now
        lost = mark.missing(connection) if mark else None
        if lost is not None:
            raise Damage(lost)
        _judge(connection, library)
        plan(version_of(connection), migrations, is_new=is_empty(connection))  # refuses before anything is written
        _write_log_again(path.with_name(path.name + "-wal"))
        _make(connection, tuning)
        database.page_checksums = _judge(connection, library)
        if database.page_checksums == "on" and application_id == 0:
            _ask(connection, f"application_id={APPLICATION_ID}")
        migrate(connection, path, schema, migrations)
        # Not yet: on a disk that fails, each attempt to open would write all of it for nothing.
        database.after_first_commit = partial(_write_log_ahead, path.with_name(path.name + "-wal"), tuning.wal_bytes)
        database.mark = mark
        return connection

    return await _opened(connect)


async def open_reader(path: Path, tuning: Tuning = QUIET_STORE) -> Database:
    """A further connection of the process that has the store open. It writes nothing."""

    def connect(database: Database) -> sqlite3.Connection:
        connection = _connect(path, tuning)
        _ask(connection, "query_only=ON")
        database.page_checksums = _judge(connection, library_checksums())
        return connection

    return await _opened(connect)


async def read_once(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T:
    """Run one reading unit on a store that nobody has open, whose lock the caller holds; raises what SQLite raises."""
    database = await open_reader(path)
    try:
        return await database.run(unit)
    finally:
        await database.close()


async def _opened(connect: Callable[[Database], sqlite3.Connection]) -> Database:
    database = Database(lambda: connect(database), iter_chunk_size=64)
    try:
        await database
    except BaseException:
        # aiosqlite ends its thread, but does not wait: it would answer to a loop that may be closed by then.
        await asyncio.to_thread(database._thread.join)
        raise
    return database


def _connect(path: Path, tuning: Tuning) -> sqlite3.Connection:
    connection: sqlite3.Connection = LIBRARY.connect(
        os.fspath(path), isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
    )
    _limit_cache(connection, tuning)
    for setting in ("temp_store=MEMORY", "mmap_size=0"):
        _ask(connection, setting)
    return connection


def _limit_cache(connection: sqlite3.Connection, tuning: Tuning) -> None:
    _ask(connection, f"cache_size=-{tuning.cache_bytes // 1024}")


def _make(connection: sqlite3.Connection, tuning: Tuning) -> None:
    """What a database is given when it is made, and how it is written from then on."""
    if _ask(connection, "page_count") == 0:
        _ask(connection, f"page_size={_PAGE_BYTES}")
        _ask(connection, "auto_vacuum=INCREMENTAL")  # it can then be made smaller bit by bit
        _limit_cache(connection, tuning)  # it was counted in pages of the size before, half as large
    for setting in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"wal_autocheckpoint={tuning.wal_bytes // _FRAME_BYTES - _FRAMES_SPARE}",
        f"journal_size_limit={_WAL_BYTES_MAX}",
    ):
        _ask(connection, setting)


def _judge(connection: sqlite3.Connection, library: str) -> str:
    """The VFS verifies when it has read in the header that each page has room for a checksum."""
    application_id = _ask(connection, "application_id")
    return judge_store(library, application_id, verifying=_ask(connection, "checksum_verification") == "1")


def _ask(connection: sqlite3.Connection, pragma: str) -> Any:
    row = connection.execute(f"PRAGMA {pragma}").fetchone()
    return row[0] if row else None


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


def _write_log_again(log: Path) -> None:
    """Have the disk take what was read from the log, byte for byte.

    A sync that failed may have dropped commits that the system still serves from memory: no later sync writes them, and
    a power cut would take them with all that was committed after them, since the log ends with the first frame that is
    not right (https://wiki.postgresql.org/wiki/Fsync_Errors). Neither may they be copied into the database file first:
    a log that is right up to them only would then lay older pages over newer ones. Who killed the process that saw the
    error is not known here, so it is done for each log that was left behind. What a log held before it started anew
    has other salts, and nobody reads it.
    """
    if not log.exists():
        return
    with log.open("r+b") as file:
        left = readable_bytes(file)
        file.seek(0)
        while block := file.read(min(left, len(_ZEROS))):
            file.seek(-len(block), os.SEEK_CUR)
            file.write(block)
            left -= len(block)
        file.flush()
        os.fsync(file.fileno())


def _write_log_ahead(log: Path, size: int) -> None:
    """Lengthen the log with zeros, which SQLite takes for its end. That there is no room is no reason not to work."""
    with contextlib.suppress(OSError), log.open("ab") as file:
        before = file.tell()
        try:
            for start in range(before, size, len(_ZEROS)):
                file.write(_ZEROS[: size - start])
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
