"""A page of zeros, which has the checksum of zeros, anywhere in the store and its log: what is served is right, or
refused; and the scan finds it where nothing reads it."""

import asyncio
import contextlib
import shutil

import pytest

from adapter.broker import Broker
from adapter.store import engine
from adapter.store.full_check import check_everything
from adapter.store.reads import read_range
from adapter.store.replacing import KEPT
from shared.clock import Clock
from shared.database import QUIET_STORE, library_checksums, page_file
from shared.problems import Problem
from tests.integration.adapter.test_repair import PAGE, live, new_store, outcome
from tests.support.census import take_census
from tests.support.factories import noise, send
from tests.support.mortal import copy_store

FRAME, LOG_HEADER = PAGE + 24, 32
MESSAGES = 24

pytestmark = [
    pytest.mark.skipif(library_checksums() != "on", reason=library_checksums()),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def pristine(tmp_path, monkeypatch):
    """The path of a small store, closed in peace, of rows in one page and over several, with one that is scheduled;
    `killed.db` beside it is the same with all of it in the log."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)
    monkeypatch.setattr(page_file, "_PAUSE_SECONDS", 0)
    path = tmp_path / "store" / "pristine.db"
    path.parent.mkdir()
    store, broker = await live(path, MESSAGES)
    for size in (9_000, 18_000, 30_000):
        text = noise(size, size // 2)
        await broker.ask(send(to="@qa", payload={"text": noise(size, size)}))
        await broker.ask(send(to="@qa", payload={"text": text, "again": text}))  # which is packed, to half of it
    later = Clock().wall_us() + 3_600_000_000
    await broker.ask(send(to="@qa", deliver_at_us=later, payload={"text": noise(0, 20_000)}))
    copy_store(path, path.with_name("killed.db"))
    await broker.close()
    await store.close()
    return path


def zeroed(pristine, number):
    """A copy of the store, of which this page is zeros."""
    path = pristine.with_name("store.db")
    shutil.rmtree(path.parent / KEPT, ignore_errors=True)
    copy_store(pristine, path)
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(bytes(PAGE))
    return path


async def test_each_page_is_found(pristine):
    """By `check`, and by the start or the scan; then all is there again, or the store is refused as it stands."""
    before, outcomes = take_census(pristine), set()
    for number in range(1, pristine.stat().st_size // PAGE + 1):
        path = zeroed(pristine, number)
        harmed = path.read_bytes()
        assert (await asyncio.to_thread(check_everything, path, lambda *_: None)).faults, number
        fault, told = await outcome(path)
        assert fault is not None or told, f"nobody has noticed page {number}"
        if fault is None:
            assert list(before.faults_of(take_census(path))) == [], number
        else:
            assert path.read_bytes() == harmed
        outcomes.add(fault is None)
    assert outcomes == {True, False}


async def test_what_is_served_before_the_scan_comes_by_is_right(pristine):
    """Each envelope that is handed over or read is the one that was stored, whatever page is zeros."""
    stored = set(take_census(pristine).messages.values())
    refused = 0
    for number in range(1, pristine.stat().st_size // PAGE + 1):
        store = new_store(zeroed(pristine, number))
        await store.start()
        broker, served = Broker(store, Clock()), []
        with contextlib.suppress(Problem):
            for agent in ("qa", "pm", "growth"):
                served += [handed.envelope for handed in (await broker.poll(agent, 100, 0)).handed]
            for channel in ("@qa", "product"):
                page = await store.read(lambda db, names, channel=channel: read_range(db, names, channel, 1, 100))
                served += page.envelopes
        refused += store.fault is not None
        assert set(served) <= stored, number
        await store.mending.ended()
        await broker.close()
        await store.close()
    assert refused


async def test_each_page_of_the_log(pristine):
    """A frame whose page is zeros is no frame: the log ends there, which its mark tells."""
    killed = pristine.with_name("killed.db")
    log = killed.with_name("killed.db-wal").read_bytes()
    before, refused = take_census(pristine), 0
    frames = (len(log) - LOG_HEADER) // FRAME
    for frame in range(0, frames, 3):
        path = pristine.with_name("store.db")
        copy_store(killed, path)
        harmed = bytearray(log)
        start = LOG_HEADER + frame * FRAME + 24
        harmed[start : start + PAGE] = bytes(PAGE)
        path.with_name("store.db-wal").write_bytes(harmed)
        store = new_store(path)
        store.mending.ladder = None
        await store.start()
        if store.fault is None:
            assert list(before.faults_of(take_census(path))) == [], frame
        refused += (store.fault or "").startswith("damaged: ")
        await store.close()
    assert refused > 10
