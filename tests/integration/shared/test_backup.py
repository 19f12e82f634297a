"""Copies of an open store: whole, verified, with right page checksums, and gone when they are not."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.database import Damage, Database, SqliteError, open_database, transaction, verify_backup, write_backup
from shared.database.backup import connect_copy

SCHEMA = "CREATE TABLE IF NOT EXISTS item (n INTEGER PRIMARY KEY, text TEXT, more BLOB) STRICT;"


class StopError(Exception):
    """Raised by a test in the middle of a copy."""


def add(connection: sqlite3.Connection) -> int:
    """Twenty items more, and a change of an old one, in one transaction; how many there are."""
    with transaction(connection):
        connection.executemany(
            "INSERT INTO item (text, more) VALUES ('', ?)", [(os.urandom(4_000),) for _ in range(20)]
        )
        connection.execute("UPDATE item SET text = 'seen' WHERE n % 7 = 0")
    return count(connection)


def count(connection: sqlite3.Connection) -> int:
    """How many items there are."""
    return int(connection.execute("SELECT count(*) FROM item").fetchone()[0])


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A store of 4 MB that is open."""
    opened = await open_database(tmp_path / "store.db", SCHEMA)
    for _ in range(50):
        await opened.run(add)
    yield opened
    await opened.close()


async def test_a_copy_made_beside_commits_is_whole_and_right(database: Database, tmp_path: Path) -> None:
    """Each transaction is in it whole or not at all, every page verifies, and it is one file."""
    target = tmp_path / "backups" / "copy.db"
    counts = [await database.run(count)]
    loop = asyncio.get_running_loop()

    def rest(_: float) -> None:
        counts.append(asyncio.run_coroutine_threadsafe(database.run(add), loop).result(10))

    await asyncio.to_thread(write_backup, database._conn, target, rest)
    assert len(counts) > 10
    verify_backup(target)
    with contextlib.closing(connect_copy(target)) as copy:
        assert count(copy) in counts
        assert copy.execute("SELECT count(*) FROM item WHERE n % 7 = 0 AND text <> 'seen'").fetchone() == (0,)
        assert copy.execute("PRAGMA checksum_verification").fetchone()[0] == "1"
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    assert target.stat().st_mode & 0o777 == 0o600


async def test_a_copy_that_is_given_up_leaves_nothing(database: Database, tmp_path: Path) -> None:
    """Neither a part of it nor a hold on the store."""

    def rest(_: float) -> None:
        raise StopError

    with pytest.raises(StopError):
        await asyncio.to_thread(write_backup, database._conn, tmp_path / "backups" / "copy.db", rest)
    assert list((tmp_path / "backups").iterdir()) == []
    assert await database.run(add) == 1_020


async def test_a_copy_never_replaces_a_file(database: Database, tmp_path: Path) -> None:
    """What has the name already stays."""
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(FileExistsError):
        await asyncio.to_thread(write_backup, database._conn, target)
    assert target.read_text() == "precious"


@pytest.mark.parametrize("place", [20, 5_000, 9_000, 100_000, 2_000_000])
async def test_a_flipped_bit_of_a_copy_is_found(database: Database, tmp_path: Path, place: int) -> None:
    """Wherever it is, the copy is refused."""
    target = tmp_path / "copy.db"
    await asyncio.to_thread(write_backup, database._conn, target)
    content = bytearray(target.read_bytes())
    content[place] ^= 8
    target.write_bytes(content)
    with pytest.raises((Damage, SqliteError)):
        verify_backup(target)


def test_what_is_no_store_is_no_backup(tmp_path: Path) -> None:
    """It is refused by its first bytes."""
    (tmp_path / "copy.db").write_text("no database")
    with pytest.raises(Damage, match="no SQLite database"):
        verify_backup(tmp_path / "copy.db")


async def test_a_copy_of_a_store_without_checksums_is_whole(tmp_path: Path) -> None:
    """A store of before, whose pages have no room for them, is copied as it is, also a large one."""
    store, target = tmp_path / "store.db", tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(store)) as plain, plain:
        plain.execute(SCHEMA)
        plain.executemany("INSERT INTO item (more) VALUES (?)", [(os.urandom(1_000),) for _ in range(10_000)])
    database = await open_database(store, SCHEMA)
    rows = await database.run(lambda connection: connection.execute("SELECT * FROM item").fetchall())
    await database.run(lambda connection: write_backup(connection, target))
    await database.close()
    with contextlib.closing(connect_copy(target)) as copy:
        assert copy.execute("SELECT * FROM item").fetchall() == rows
