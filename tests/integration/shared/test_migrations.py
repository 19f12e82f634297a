"""Migrations on real files: whole or not at all, a backup before, and hands off a store that is newer."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from shared.config import ConfigurationFault
from shared.database import open_database, verify_backup
from tests.integration.shared.migrating import NEW, OLD, STEPS
from tests.support.store_hand import reading

NOTES = [(n, f"text of {n}") for n in range(1, 400)]


async def make_old(path: Path) -> None:
    """A store of version 1 with something in it, closed in good order."""
    database = await open_database(path, OLD)

    def fill(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO item VALUES (?)", [(n,) for n, _ in NOTES])
        connection.executemany("INSERT INTO note VALUES (?, ?)", NOTES)

    await database.run(fill)
    await database.settle()
    await database.close()


async def look(path: Path) -> tuple[int, list[tuple[int, str]], list[str]]:
    """Open it as the program does; its version, its content and its tables."""
    database = await open_database(path, NEW, migrations=STEPS)

    def read(connection: sqlite3.Connection) -> tuple[int, list[tuple[int, str]], list[str]]:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
        return version, connection.execute("SELECT n, text FROM thing ORDER BY n").fetchall(), tables

    found = await database.run(read)
    await database.settle()
    await database.close()
    return found


def open_and_die(path: Path, number: int) -> int:
    """Open it in a process that is killed at a statement; how it ended."""
    command = [sys.executable, "-m", "tests.integration.shared.migrating", str(path), str(number)]
    return subprocess.run(command, timeout=30, check=False).returncode  # noqa: S603 - this interpreter


async def test_an_older_store_is_brought_forward_with_a_backup_before(tmp_path: Path) -> None:
    """The content is all there in the new form, and the store as it was stays beside it, verified."""
    store = tmp_path / "store.db"
    await make_old(store)
    assert await look(store) == (3, NOTES, ["thing", "things_by_text"])
    kept = tmp_path / "store.db-version-1"
    verify_backup(kept)
    with reading(kept) as copy:
        assert copy.execute("SELECT item, text FROM note ORDER BY item").fetchall() == NOTES


async def test_a_store_that_does_not_say_its_version_is_of_the_first(tmp_path: Path) -> None:
    """Stores that were made before versions were kept are brought forward like those of version 1."""
    store = tmp_path / "store.db"
    await make_old(store)
    database = await open_database(store, "")
    await database.run(lambda connection: connection.execute("PRAGMA user_version=0").fetchall())
    await database.settle()
    await database.close()
    assert (await look(store))[:2] == (3, NOTES)


async def test_a_new_store_is_made_in_the_newest_form(tmp_path: Path) -> None:
    """It takes no step and leaves no backup."""
    assert await look(tmp_path / "store.db") == (3, [], ["thing", "things_by_text"])
    assert not (tmp_path / "store.db-version-1").exists()


async def test_a_newer_store_is_refused_and_not_touched(tmp_path: Path) -> None:
    """The words say both versions, and no byte of the store is changed."""
    store = tmp_path / "store.db"
    await make_old(store)
    await look(store)
    before = store.read_bytes()
    with pytest.raises(ConfigurationFault, match="of version 3, and this program knows 1"):
        await open_database(store, OLD)
    assert store.read_bytes() == before


async def test_a_kill_at_any_statement_leaves_a_store_that_opens_whole(tmp_path: Path) -> None:
    """Killed before each statement of every step, the next opening has all content in the newest form."""
    template = tmp_path / "template.db"
    await make_old(template)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        store = Path(shutil.copy(template, folder / "store.db"))
        ended = open_and_die(store, number)
        assert await look(store) == (3, NOTES, ["thing", "things_by_text"])
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert number == 9  # six statements, and the ends of three scripts
