"""Packed envelopes in a store: beside plain ones of before, and damaged ones."""

import asyncio

import pytest

from adapter.broker import Broker
from adapter.store import engine
from adapter.store.full_check import check_everything
from adapter.store.reads import read_range
from shared.clock import Clock
from shared.database import QUIET_STORE, library_checksums, verify_backup
from shared.problems import Problem
from shared.strict_json import decode_object
from tests.integration.adapter.test_repair import PAGE, backed_up, harm, index_page, new_store, page_of, repaired
from tests.support.census import take_census
from tests.support.factories import claim, send
from tests.support.store_hand import as_sent, looking_at, reading

TEXT = "the same words again and again, " * 60
COLUMNS = "SELECT id, envelope FROM messages ORDER BY id"

pytestmark = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """A small log."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)


async def sent(path, count, *, first=0):
    """Open the store, send so many to one agent, and close it."""
    store = new_store(path)
    await store.open()
    broker = Broker(store, Clock())
    for n in range(first, first + count):
        await broker.ask(send(to="@qa", payload={"n": n, "text": TEXT}))
    await broker.close()
    await store.close()


@pytest.fixture
async def old(tmp_path):
    """A store as a program of version 1 has left it: every envelope plain."""
    path = tmp_path / "store" / "store.db"
    path.parent.mkdir()
    await sent(path, 20)
    with looking_at(path) as db:
        db.create_function("as_sent", 1, as_sent)
        db.execute("UPDATE messages SET envelope = as_sent(envelope)")
        db.execute("PRAGMA user_version=1").fetchall()
        db.execute("VACUUM")  # nothing of before is left on its pages
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path


def columns(path):
    """What stands in the rows, by message."""
    with reading(path) as db:
        return dict(db.execute(COLUMNS).fetchall())


async def test_an_old_store_is_read_beside_what_is_new(old):
    """Its rows stay as they are, new ones are packed, and both are handed over as they were sent; a copy of the old
    store is kept, and its number is of the new form."""
    before = columns(old)
    assert all(column.startswith(b"{") for column in before.values())
    await sent(old, 20, first=20)
    after = columns(old)
    assert {number: after[number] for number in before} == before
    new = [column for number, column in after.items() if number not in before]
    assert len(new) == 20
    assert all(column[0] == 1 and len(column) < len(TEXT) / 2 for column in new)
    with reading(old) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    kept = old.with_name("store.db-version-1")
    verify_backup(kept)
    assert columns(kept) == before
    store = new_store(old)
    await store.open()
    handed = await store.apply([claim("qa", 100)])
    assert [each.envelope for each in handed.outcomes[0]] == [as_sent(column) for column in after.values()]
    assert [decode_object(each.envelope)["payload"]["n"] for each in handed.outcomes[0]] == list(range(40))
    page = await store.read(lambda db, names: read_range(db, names, "@qa", 1, 40))
    assert page.envelopes == [as_sent(column) for column in after.values()]
    await store.close()
    assert (await asyncio.to_thread(check_everything, old, lambda *_: None)).faults == []


async def test_an_old_store_that_is_damaged_is_repaired(old):
    """Also where it cannot be opened before: nothing is lost, and rows of both forms are taken over as they are."""
    before = columns(old)
    start = index_page(old)
    harm(old, *range(start, start + PAGE, 64))
    await repaired(old)
    assert columns(old) == before


async def test_a_backup_of_an_old_store_helps_a_new_one(old):
    """What stands on a page that is gone is taken from it."""
    backup = await backed_up(old)
    await sent(old, 3, first=20)
    before = take_census(old)
    start = page_of(old, b'"n":7,')
    harm(old, *range(start + 200, start + PAGE - 200, 64))
    end = await repaired(old, backup=backup, before=before)
    assert end.details["from_backup"] > 0


@pytest.mark.parametrize("column", ["01ffffffff7d", "01050000007d", "027d", "01005a00007b7d"])
async def test_a_packed_envelope_that_is_none_is_damage(tmp_path, column):
    """Whoever asks for it gets nothing, `check` names it, and a repair takes it for lost; no process ends of it."""
    path = tmp_path / "store.db"
    await sent(path, 5)
    with looking_at(path) as db:
        db.execute("UPDATE messages SET envelope = ? WHERE id = 3", (bytes.fromhex(column),))
    found = await asyncio.to_thread(check_everything, path, lambda *_: None)
    assert found.faults == ["message 3 does not hold the envelope of its place, 3"]
    store = new_store(path)
    await store.open()
    with pytest.raises(Problem, match="store-unavailable"):
        await store.apply([claim("qa", 10)])
    await store.mending.ended()
    assert "damaged" in store.fault
    await store.close()
