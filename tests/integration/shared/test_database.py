"""SQLite underneath: private files, durable settings, whole units of work, one process per store."""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite.core
import pytest

from shared.config import ConfigurationFault
from shared.database import (
    QUIET_STORE,
    SQLITE_VERSION,
    Database,
    SqliteError,
    StoreLock,
    ThreadEnded,
    open_database,
    transaction,
)
from shared.database.library import LIBRARY

SCHEMA = """
CREATE TABLE IF NOT EXISTS item (n INTEGER PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS child (n INTEGER REFERENCES item (n) DEFERRABLE INITIALLY DEFERRED) STRICT;
"""
HOLDER = """
import sys, time
from pathlib import Path
from shared.database import StoreLock
lock = StoreLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A fresh database."""
    opened = await open_database(tmp_path / "store.db", SCHEMA)
    yield opened
    await opened.close()


def add(connection: sqlite3.Connection, *numbers: int) -> int:
    """Insert items and count them."""
    with transaction(connection):
        connection.executemany("INSERT INTO item VALUES (?)", [(n,) for n in numbers])
    return count(connection)


def count(connection: sqlite3.Connection) -> int:
    """How many items there are."""
    found: int = connection.execute("SELECT count(*) FROM item").fetchone()[0]
    return found


def modes_in(folder: Path) -> dict[str, int]:
    """The permissions of every file of a folder."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_a_commit_is_durable_by_its_settings(database: Database) -> None:
    """WAL with synchronous=FULL: what is committed survives a power cut, and no other setting crept in."""

    def pragma(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "mmap_size", "page_size", "journal_size_limit")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await database.run(pragma) == ["wal", 2, 0, 8192, 64 * 1024 * 1024]


def sqlite_bytes() -> int:
    """What SQLite has allocated in this process (https://sqlite.org/c3ref/memory_highwater.html)."""
    used = ctypes.CDLL(LIBRARY._sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    found: int = used()
    return found


async def test_a_store_just_made_keeps_no_more_pages_than_its_cache(tmp_path: Path) -> None:
    """The cache is bounded in bytes, though it was bounded before the size of a page was known."""
    before = sqlite_bytes()
    opened = await open_database(tmp_path / "store.db", "CREATE TABLE IF NOT EXISTS filler (bytes BLOB) STRICT;")
    for _ in range(8):
        await opened.run(lambda db: db.execute("INSERT INTO filler VALUES (zeroblob(1048576))").close())
    grown = sqlite_bytes() - before
    await opened.close()
    assert grown < 1.25 * QUIET_STORE.cache_bytes


async def test_the_files_are_private_from_birth(tmp_path: Path) -> None:
    """The database, its WAL and its shared memory have mode 0600, whatever the umask."""
    before = os.umask(0)
    try:
        opened = await open_database(tmp_path / "store.db", SCHEMA)
        await opened.run(lambda connection: add(connection, 1))
        modes = modes_in(tmp_path)
        await opened.close()
    finally:
        os.umask(before)
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600, "store.db-mark": 0o600}


async def test_a_link_in_the_place_of_the_store_is_refused(tmp_path: Path) -> None:
    """A symbolic link is not followed: the store cannot be made to appear elsewhere."""
    (tmp_path / "store.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(ConfigurationFault, match="symbolic"):
        await open_database(tmp_path / "store.db", SCHEMA)
    assert not (tmp_path / "elsewhere.db").exists()


async def test_a_store_that_does_not_open_leaves_no_thread(tmp_path: Path) -> None:
    """After a failed opening its thread has ended: nothing keeps the process or calls a closed loop."""
    (tmp_path / "store.db").write_text("no database at all, but long enough to be looked at as one" * 100)
    with pytest.raises(SqliteError, match="not a database"):
        await open_database(tmp_path / "store.db", SCHEMA)
    assert not [thread for thread in threading.enumerate() if "_connection_worker" in thread.name]
    assert (tmp_path / "store.db").read_text().startswith("no database at all")


async def test_opening_again_finds_what_was_committed(tmp_path: Path) -> None:
    """The schema applies to a store that has it already."""
    for expected in (1, 2):
        opened = await open_database(tmp_path / "store.db", SCHEMA)
        assert await opened.run(lambda connection, n=expected: add(connection, n)) == expected
        await opened.close()


async def test_a_failed_unit_leaves_nothing(database: Database) -> None:
    """A unit that raises is rolled back whole, its fault reaches the caller, and the next unit works."""

    def half(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            connection.execute("INSERT INTO item VALUES (1)")
            raise LookupError("half way")

    with pytest.raises(LookupError):
        await database.run(half)
    with pytest.raises(SqliteError):
        await database.run(lambda connection: add(connection, 2, 2))
    assert await database.run(count) == 0
    assert await database.run(lambda connection: add(connection, 3)) == 1


async def test_a_failed_commit_leaves_no_open_transaction(database: Database) -> None:
    """When COMMIT itself fails, as a full disk or a deferred constraint makes it, the transaction is rolled back."""
    await database.run(lambda connection: connection.execute("PRAGMA foreign_keys=ON").fetchall())

    def orphan(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            connection.execute("INSERT INTO item VALUES (1)")
            connection.execute("INSERT INTO child VALUES (99)")

    with pytest.raises(SqliteError, match="FOREIGN KEY"):
        await database.run(orphan)
    assert await database.run(lambda connection: connection.in_transaction) is False
    assert await database.run(lambda connection: add(connection, 1)) == 1


async def test_cancelling_the_waiter_leaves_no_open_transaction(database: Database) -> None:
    """A task cancelled while its unit runs does not stop the unit: it commits whole, and the next one is not locked."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            connection.execute("INSERT INTO item VALUES (1)")
            inside.set()
            assert go_on.wait(30)
            connection.execute("INSERT INTO item VALUES (2)")

    task = asyncio.create_task(database.run(slow))
    assert await asyncio.to_thread(inside.wait, 30)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    go_on.set()
    assert await database.run(lambda connection: connection.in_transaction) is False
    assert await database.run(lambda connection: add(connection, 3)) == 3


async def test_a_thread_that_ends_leaves_nobody_waiting(tmp_path: Path) -> None:
    """Who waits is told, and who comes later; what was begun is rolled back, and the file can be opened again."""
    database = await open_database(tmp_path / "store.db", SCHEMA)
    await database.run(lambda connection: add(connection, 1))
    await database.execute("BEGIN IMMEDIATE")
    await database.execute("INSERT INTO item VALUES (2)")
    database._tx.put_nowait((None, lambda: aiosqlite.core._STOP_RUNNING_SENTINEL))
    waiting = [asyncio.create_task(database.run(count)) for _ in range(3)]
    async with asyncio.timeout(10):
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in told] == [ThreadEnded] * 3
        with pytest.raises(ThreadEnded):
            await database.run(count)
        assert database.ended
        await database.close()
    again = await open_database(tmp_path / "store.db", SCHEMA)
    assert await again.run(lambda connection: add(connection, 3)) == 2
    await again.close()


async def test_hundreds_of_cancelled_units_leave_the_store_usable(database: Database) -> None:
    """Units whose askers are cancelled at every stage are each applied whole or not at all."""

    def pair(connection: sqlite3.Connection, n: int) -> None:
        with transaction(connection):
            connection.execute("INSERT INTO item VALUES (?)", (2 * n,))
            connection.execute("INSERT INTO item VALUES (?)", (2 * n + 1,))

    async def ask(number: int) -> None:
        await database.run(lambda connection: pair(connection, number))

    tasks = [asyncio.create_task(ask(n)) for n in range(300)]
    for index, task in enumerate(tasks):
        if index % 3 == 0:
            await asyncio.sleep(0)
        if index % 3 != 2:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    numbers = await database.run(lambda connection: {n for (n,) in connection.execute("SELECT n FROM item")})
    assert all(n ^ 1 in numbers for n in numbers)
    assert {2 * n for n in range(2, 300, 3)} <= numbers


def test_the_sqlite_of_the_process_is_not_in_the_faulty_range() -> None:
    """Where the bundled SQLite is used, it has the WAL-reset fault mended (3.51.3 or later)."""
    if "pysqlite3" not in sys.modules:
        pytest.skip("no wheel of pysqlite3 for this platform: the standard library's SQLite serves")
    assert tuple(map(int, SQLITE_VERSION.split("."))) >= (3, 51, 3)


def test_a_second_process_is_refused_and_told_who_holds(tmp_path: Path) -> None:
    """The lock names its holder's pid, also through a link to the folder, and `kill -9` of the holder frees it."""
    (tmp_path / "link").symlink_to(tmp_path / "store")
    holder = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", HOLDER, os.fspath(tmp_path / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        for folder in (tmp_path / "store", tmp_path / "link"):
            with pytest.raises(ConfigurationFault, match=rf"in use by process {holder.pid};"):
                StoreLock(folder)
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=30)
    lock = StoreLock(tmp_path / "store")
    assert (tmp_path / "store" / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_predecessor_may_take_a_moment_to_end(tmp_path: Path) -> None:
    """With patience, a lock that is released meanwhile is taken; without, it is refused."""
    lock = StoreLock(tmp_path)
    with pytest.raises(ConfigurationFault):
        StoreLock(tmp_path)
    ending = threading.Timer(0.1, lock.release)
    ending.start()
    StoreLock(tmp_path, patience_seconds=30).release()
    ending.join()


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    """Within one process too: held means refused, released means free, and both files are private."""
    lock = StoreLock(tmp_path / "store")
    with pytest.raises(ConfigurationFault, match=str(os.getpid())):
        StoreLock(tmp_path / "store")
    lock.release()
    StoreLock(tmp_path / "store").release()
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "store" / "lock").stat().st_mode) == 0o600


async def test_the_log_is_written_ahead_and_kept(tmp_path: Path) -> None:
    """It has its length from the first commit, keeps it while it is used, and what was committed is read after a crash.

    Before that commit nobody knows whether the disk works.
    """
    log = tmp_path / "store.db-wal"
    schema = "CREATE TABLE IF NOT EXISTS t (n INTEGER, body TEXT)"
    opened = await open_database(tmp_path / "store.db", schema, QUIET_STORE)
    assert log.stat().st_size < QUIET_STORE.wal_bytes // 10
    await opened.run(lambda connection: connection.execute("SELECT count(*) FROM t").fetchone())
    assert log.stat().st_size < QUIET_STORE.wal_bytes // 10
    for n in range(600):
        await opened.run(lambda connection, n=n: connection.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 9_000)))
    assert QUIET_STORE.wal_bytes <= log.stat().st_size < QUIET_STORE.wal_bytes * 2
    for name in ("store.db", "store.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")
    await opened.close()
    copy = await open_database(tmp_path / "copy-store.db", schema, QUIET_STORE)
    assert await copy.run(lambda connection: connection.execute("SELECT count(*) FROM t").fetchone()) == (600,)
    await copy.close()


async def test_a_second_opening_keeps_the_first_ones_locks(tmp_path: Path) -> None:
    """Another process cannot take the file out of WAL mode, which only the locks of open connections prevent."""
    store = tmp_path / "store.db"
    first, second = await open_database(store, SCHEMA), await open_database(store, SCHEMA)
    probe = (
        "import sys; from shared.database.library import LIBRARY; "
        "LIBRARY.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode=DELETE')"
    )
    other = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", probe, str(store)], capture_output=True, text=True, check=False
    )
    await second.close()
    await first.close()
    assert "database is locked" in other.stderr
