"""The start-up check, the background scan of the pages, and the witness that misses messages (promise 16)."""

import json
import shutil

import pytest

from adapter.broker import Broker
from adapter.http.health import Health
from adapter.store.engine import Store
from adapter.store.integrity import Integrity
from adapter.store.witness import read_witness, witness_path
from shared.backups import BackupState
from shared.clock import Clock
from shared.database import library_checksums
from shared.problems import Problem
from shared.times import MICROSECONDS
from tests.support.factories import membership, noise, policy, send
from tests.support.mortal import copy_store

PAGE = 8192
AT_ONCE_US = 1

verifying = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


def new_store(path):
    """A store over what is there."""
    return Store(path, membership(), policy(queue_max=1_000), Clock())


async def fill(path, messages=200):
    """Send so many, and close in peace."""
    store = new_store(path)
    await store.open()
    broker = Broker(store, Clock())
    for n in range(messages):
        await broker.ask(send(to="@qa" if n % 3 else "product", payload={"n": n, "text": noise(n, 1_200)}))
    await broker.close()
    await store.close()


async def outcome(path):
    """Why a store that is started does not serve, or None; closed again."""
    store = new_store(path)
    await store.start()
    if (store.fault or "").startswith("damaged"):
        await store.mending.ended()
    fault = store.fault
    await store.close()
    return fault


def flip(path, offset):
    """One bit."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


@pytest.fixture
async def filled(tmp_path):
    """The path of a store with messages."""
    path = tmp_path / "store.db"
    await fill(path)
    return path


async def scan_all(store):
    """Scan until a scan ended or the store was found damaged."""
    before = store.integrity.figures().position.finished_at_us
    while store.fault is None and store.integrity.figures().position.finished_at_us == before:
        await store.integrity.scan(AT_ONCE_US)


@verifying
async def test_the_scan_finds_a_wrong_page_that_nothing_reads(filled):
    """Wherever it is: the store stops being ready and says why."""
    pages = filled.stat().st_size // PAGE
    page = pages // 2
    store = new_store(filled)
    await store.open()
    await scan_all(store)
    assert store.fault is None
    assert store.integrity.figures().position.finished_at_us is not None
    flip(filled, (page - 1) * PAGE + 5_000)
    told = []

    async def tell(why):
        told.append(why)

    store.mending.on_damage = tell
    await scan_all(store)
    await store.mending.ended()
    assert store.fault.startswith("damaged: ")
    assert f"wrong pages: {page};" in store.fault
    assert told == [store.fault]
    await store.close()


@verifying
async def test_the_scan_goes_on_where_it_was(filled):
    """After a restart too: its position is kept beside the store."""
    store = new_store(filled)
    await store.open()
    pages = store.integrity.figures().pages
    if pages <= 128:
        await store.close()
        await fill(filled, 600)
        store = new_store(filled)
        await store.open()
    await store.integrity.scan(AT_ONCE_US)
    position = store.integrity.figures().position
    assert position.next_page == 129
    await store.close()
    store = new_store(filled)
    await store.open()
    assert store.integrity.figures().position == position
    assert 0 < store.integrity.figures().progress < 1
    await store.close()


async def test_an_error_of_the_disk_stops_no_scan_and_proves_nothing(filled, monkeypatch):
    """The store stays ready, and the scan goes on after it."""
    store = new_store(filled)
    await store.open()
    monkeypatch.setattr("adapter.store.integrity._IDLE_SECONDS", 0)
    answers = iter([OSError(5, "Input/output error"), 10_000])
    seen = []

    async def scan(_):
        answer = next(answers, 60 * MICROSECONDS)
        seen.append(answer)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(store.integrity, "scan", scan)
    async with store.integrity.watching(AT_ONCE_US, store.committed):
        while len(seen) < 3:
            await store.check()
    assert store.fault is None
    await store.close()


@pytest.mark.parametrize("how", ["empty", "gone", "older", "fresh"])
async def test_a_store_that_lacks_messages_is_refused(tmp_path, how):
    """One that was emptied, removed, or replaced by an older copy or by a new store is no good one."""
    path, older = tmp_path / "store.db", tmp_path / "older.db"
    await fill(path, 5)
    copy_store(path, older)
    await fill(path, 5)
    if how == "fresh":
        await fill(older.with_name("fresh.db"), 1)
        older = older.with_name("fresh.db")
    if how in {"older", "fresh"}:
        shutil.copyfile(older, path)
    else:
        path.unlink()
    if how == "empty":
        path.touch()
    fault = await outcome(path)
    assert fault.startswith("damaged: ")
    assert "number 10 was seen in it" in fault
    assert str(witness_path(path)) in fault
    assert path.exists() == (how != "gone")
    witness_path(path).unlink()
    assert await outcome(path) is None


async def test_the_witness_is_never_ahead_of_the_store(tmp_path):
    """What was numbered and not committed is not witnessed: a failed commit proves no loss."""
    path = tmp_path / "store.db"
    store = new_store(path)
    await store.open()
    broker = Broker(store, Clock())
    await broker.ask(send())
    await store._writer.run(lambda db: db.execute(f"PRAGMA max_page_count={path.stat().st_size // PAGE}"))
    with pytest.raises(Problem, match="store-unavailable"):
        await broker.ask(send(payload={"text": noise(0, 900_000)}))
    assert store.committed() == 1
    await broker.close()
    await store.close()
    assert await outcome(path) is None
    assert read_witness(path).last_message_id == 1


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("DELETE FROM messages WHERE id = 4", "message 4, which waits for its receiver, has no row"),
        ("UPDATE channels SET last_message_id = 3", "holds message 5 and has counted 3"),
        ("UPDATE channels SET last_sequence = 0 WHERE name = '@qa'", "channel @qa holds sequence"),
    ],
)
async def test_the_live_part_is_checked_at_each_opening(tmp_path, harm, words):
    """A delivery without its message, and counters behind what they counted: nothing of that is served."""
    path = tmp_path / "store.db"
    await fill(path, 5)
    store = new_store(path)
    await store.open()
    await store._writer.run(lambda db: db.execute(harm))
    await store.close()
    witness_path(path).unlink()
    fault = await outcome(path)
    assert fault.startswith("damaged: ")
    assert words in fault


@verifying
async def test_health_and_metrics_tell_of_the_scan(filled):
    """When all was read last, and how far the scan has come."""
    store = new_store(filled)
    await store.open()
    health = Health(store, list, lambda: BackupState(schedule="off"))
    told = json.loads((await health.ready(None)).body)["integrity"]
    assert told == {"scan": "on", "last_full_scan": None, "progress": 0.0, "pages": filled.stat().st_size // PAGE}
    await scan_all(store)
    told = json.loads((await health.ready(None)).body)["integrity"]
    assert told["last_full_scan"] is not None
    text = (await health.metrics(None)).body.decode()
    assert "multiclaw_integrity_scan_ratio 0.0" in text
    assert "multiclaw_integrity_last_scan_seconds 0.0" not in text
    await store.close()


def test_an_unreadable_witness_proves_nothing(tmp_path):
    """It is read as if there were none."""
    path = tmp_path / "store.db"
    for text in ("", "{", "[]", '{"last_message_id": "x", "scan": {}}', '{"last_message_id": 1}'):
        witness_path(path).write_text(text)
        assert read_witness(path).last_message_id == 0
    Integrity(path, Clock()).opening()
