"""A repair that cannot be done, or not to its end, changes nothing and leaves nothing."""

import asyncio
import contextlib
import sqlite3

import pytest

from adapter.store import engine, mending, repairing, room
from adapter.store.repairing import prepare_repair
from adapter.store.room import NoRoomError
from adapter.store.witness import witness_path
from shared.database import QUIET_STORE, Damage, library_checksums
from shared.database.library import LIBRARY
from tests.integration.adapter.test_repair import PAGE, fill, harm, index_page, new_store, outcome
from tests.support.store_hand import reading

pytestmark = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


@pytest.fixture
async def filled(tmp_path, monkeypatch):
    """The path of a store with messages in all states, and a small log."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)
    path = tmp_path / "store" / "store.db"
    path.parent.mkdir()
    await fill(path)
    return path


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), sqlite3.OperationalError("database is locked")])
async def test_errors_that_prove_nothing(filled, monkeypatch, error):
    """They end the attempt with their words; nothing is changed and nothing left."""

    def fail(*_):
        raise error

    monkeypatch.setattr(repairing, "copy_files", fail)
    harm(filled, index_page(filled) + 4_000)
    content = filled.read_bytes()
    fault, (end,) = await outcome(filled)
    assert str(error) in fault
    assert end.kept is None
    assert filled.read_bytes() == content
    assert not filled.with_name("repairing").exists()


async def test_busy_is_no_damage(filled, monkeypatch):
    """Nothing but proof starts a repair."""
    asked = []
    monkeypatch.setattr(repairing, "copy_files", asked.append)
    store = new_store(filled)
    await store.open()
    store._fail(LIBRARY.OperationalError("database is locked"))
    await store.mending.ended()
    assert store.fault is None
    await store.close()
    assert asked == []


def test_a_disk_with_too_little_room(filled, monkeypatch):
    """Nothing is written, and it is said how much is needed."""

    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr(room.os, "statvfs", lambda _: Full)
    with pytest.raises(NoRoomError, match="MiB free in"):
        prepare_repair(filled, None, 0, lambda *_: None)
    assert not filled.with_name("repairing").exists()


async def test_a_repair_that_is_given_up_leaves_nothing(filled):
    """At each of its steps: the store is as it was, and its closing does not wait for the end of the repair."""
    harm(filled, index_page(filled) + 4_000)
    content, steps = filled.read_bytes(), 1
    fatal = 0
    while fatal < steps:
        count = 0

        def step(*_, at=fatal):
            nonlocal count
            count += 1
            if count > at:
                raise asyncio.CancelledError

        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.to_thread(prepare_repair, filled, None, 0, step)
            break
        steps, fatal = fatal + 2, fatal + 1
        assert not filled.with_name("repairing").exists()
        assert filled.read_bytes() == content
    assert fatal > 5


def test_a_store_that_is_gone_is_for_restore(tmp_path):
    """There is nothing to read."""
    path = tmp_path / "store.db"
    witness_path(path).write_text("{}")
    for _ in range(2):
        with pytest.raises(Damage, match="multiclaw restore"):
            prepare_repair(path, None, 0, lambda *_: None)
        path.touch()


async def test_a_disk_that_does_not_give_the_files_proves_nothing(filled, monkeypatch):
    """What SQLite calls malformed then is no reason for a repair: the store is opened again until it works."""
    doubts, asked = iter(["the disk does not give what is asked for: EIO"] * 2), []
    monkeypatch.setattr(mending, "doubt", lambda *_: next(doubts, None))
    monkeypatch.setattr(repairing, "copy_files", lambda *given: asked.append(given))
    monkeypatch.setattr(mending, "REOPEN_SECONDS", 0.01)
    store = new_store(filled)
    await store.open()
    opening, failures = store.open, iter([LIBRARY.DatabaseError("malformed")])

    async def open_or_fail():
        for failure in failures:
            failure.sqlite_errorcode = LIBRARY.SQLITE_CORRUPT
            raise failure
        await opening()

    monkeypatch.setattr(store, "open", open_or_fail)
    first = LIBRARY.DatabaseError("malformed")
    first.sqlite_errorcode = LIBRARY.SQLITE_CORRUPT
    store._fail(first)
    await store.mending.ended()
    assert (store.fault, asked, list(doubts)) == (None, [], [])
    await store.close()


@pytest.mark.parametrize("table", ["retention_clock", "dead_letters", "topologies", "channels"])
async def test_a_page_that_went_astray(filled, table):
    """In the place of a small table's, by a right checksum: the rows of another are not taken for its own, and a human
    is told what there is; the same for a page of dead letters."""
    with reading(filled) as db:
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema WHERE name IN (?, 'agents')", (table,)))
    content = bytearray(filled.read_bytes())
    agents, there = ((roots[name] - 1) * PAGE for name in ("agents", table))
    content[there : there + PAGE] = content[agents : agents + PAGE]
    filled.write_bytes(content)
    prepared = await asyncio.to_thread(prepare_repair, filled, None, 0, lambda *_: None)
    assert not prepared.rebuilt.losses.nothing
    assert filled.read_bytes() == content


@pytest.mark.parametrize("error", [TypeError("str and int"), UnicodeDecodeError("utf-8", b"", 0, 1, "garbage")])
async def test_garbage_that_no_rule_foresees(filled, monkeypatch, error):
    """It cannot be repaired, in words; nothing is changed and nothing left."""

    def fail(*_):
        raise error

    monkeypatch.setattr(repairing, "rebuild", fail)
    content = filled.read_bytes()
    with pytest.raises(Damage, match="makes no sense"):
        prepare_repair(filled, None, 0, lambda *_: None)
    assert filled.read_bytes() == content
    assert not filled.with_name("repairing").exists()
