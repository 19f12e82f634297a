"""A page of zeros: whether SQLite has left it so, or it was lost, told past SQLite and beside it."""

import asyncio
import random

import pytest

from shared.database import PageFile, Tuning, library_checksums, open_database, page_file, transaction
from shared.database.library import LIBRARY
from shared.database.zero_pages import is_lost, spoil_zero_pages
from tests.support.store_hand import reading

PAGE = 8192
TUNING = Tuning(wal_bytes=64 * 1024 * 1024, cache_bytes=64 * 1024 * 1024)
SCHEMA = "CREATE TABLE IF NOT EXISTS thing (n INTEGER PRIMARY KEY, body BLOB) STRICT;"

pytestmark = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Nobody writes while a page is looked at."""
    monkeypatch.setattr(page_file, "_PAUSE_SECONDS", 0)


def churn(connection, rng):
    """One transaction that makes rows of many pages, and drops some of them again before they are ever written."""
    with transaction(connection):
        made = [
            connection.execute("INSERT INTO thing (body) VALUES (randomblob(?))", (rng.randint(1, 90_000),)).lastrowid
            for _ in range(rng.randint(2, 4))
        ]
        dropped = {made[0], rng.randint(1, made[-1])} if rng.random() < 0.8 else {rng.choice(made)}
        connection.executemany("DELETE FROM thing WHERE n = ?", [(n,) for n in dropped])
        if rng.random() < 0.1:
            connection.execute("PRAGMA incremental_vacuum(3)").fetchall()


def zeros(path):
    """Numbers of the pages of zeros in the file."""
    content = path.read_bytes()
    return [at // PAGE + 1 for at in range(0, len(content), PAGE) if not any(content[at : at + PAGE])]


@pytest.mark.parametrize("seed", range(4))
async def test_what_sqlite_leaves_is_not_lost(tmp_path, seed):
    """After each commit, whatever a reader has kept a checkpoint from moving: no page is called wrong. What is then
    zeroed and used is, whether the log was brought into the file or not."""
    rng, path = random.Random(seed), tmp_path / "store.db"
    database = await open_database(path, SCHEMA, TUNING)
    pages, met = PageFile(path), 0
    for turn in range(60):
        if turn % 9 == 0:
            held = LIBRARY.connect(path, isolation_level=None)
            held.execute("BEGIN")
            held.execute("SELECT count(*) FROM thing").fetchone()
        await database.run(lambda connection: churn(connection, rng))
        if turn % 9 == 6:
            held.close()
        if turn % 2:
            await database.run(lambda connection: connection.execute("PRAGMA wal_checkpoint").fetchall())
        assert pages.wrong_pages(1, pages.pages) == []
        met += len(await asyncio.to_thread(zeros, path))
    assert met > 20
    pages.close()
    await database.settle()
    await database.close()


async def test_each_page_that_is_used_is_missed(tmp_path):
    """By its number; in a copy it is made to fail its checksum, and what SQLite has left is not."""
    rng, path, copy = random.Random(3), tmp_path / "store.db", tmp_path / "copy.db"
    database = await open_database(path, SCHEMA, TUNING)
    for _ in range(12):
        await database.run(lambda connection: churn(connection, rng))
    await database.run(lambda connection: connection.execute("PRAGMA wal_checkpoint").fetchall())
    await database.settle()
    await database.close()
    count = path.stat().st_size // PAGE
    with reading(path) as db:
        free = db.execute("PRAGMA freelist_count").fetchone()[0]
    pristine, missed = path.read_bytes(), []
    for number in range(2, count + 1):
        start = (number - 1) * PAGE
        copy.write_bytes(pristine[:start] + bytes(PAGE) + pristine[start + PAGE :])
        pages = PageFile(copy)
        missed += pages.wrong_pages(number, 1)
        pages.close()
        if number % 10 == 0:
            assert spoil_zero_pages(copy) == missed[-1:] * (missed[-1:] == [number])
    assert len(missed) == count - 1 - free


def test_the_page_of_the_lock_is_never_used(tmp_path):
    """It is zeros in each store of more than a gibibyte, and the map of pages steps over it."""
    lock = 0x40000000 // PAGE + 1

    def no_page(_):
        raise AssertionError("it is known by its number")

    assert not is_lost(lock, PAGE, no_page, tmp_path / "none")
