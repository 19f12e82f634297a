"""Readiness tells within a second that the store takes no writes, though nobody has sent anything, and says why."""

import asyncio
import json
import threading
import time

import aiosqlite.core
import pytest

from adapter.broker import Broker
from adapter.http.health import Health
from adapter.store import engine, mending
from adapter.store.engine import Store
from adapter.store.open_messages import read_forgotten_us
from shared.backups import BackupState
from shared.database import BUSY_STORE
from shared.problems import Problem
from tests.support.clock import SettableClock
from tests.support.deployment import health, until
from tests.support.disks import full_disk
from tests.support.factories import membership, policy, send
from tests.support.store_hand import holding

BUSY_SECONDS = 5.0
"""What the machine may take on top, when all its cores are at work; what hangs here hangs for longer."""


class Bench:
    """A store, who is asked whether it is ready, and the time."""

    def __init__(self, path):
        self.path = path
        self.clock = SettableClock()
        self.store = Store(path, membership(), policy(), self.clock, probe_seconds=10)
        self.health = Health(self.store, list, lambda: BackupState(schedule="off"))
        self.broker = Broker(self.store, self.clock)

    async def ask(self):
        """Status and reason; the answer comes within a second."""
        begun = time.monotonic()
        answer = await self.health.ready(None)
        assert time.monotonic() - begun < 1 + BUSY_SECONDS
        return answer.status, json.loads(answer.body).get("reason")

    async def ready_again(self):
        """Wait until it is ready by itself."""

        async def asked():
            return (await self.ask())[0] == 200

        await until(asked, "ready")

    async def on_writer(self, unit):
        """Run a unit on the connection that writes."""
        return await self.store._writer.run(unit)

    async def statements(self):
        """What the writer is asked to execute from now on."""
        heard = []
        await self.on_writer(lambda connection: connection.set_trace_callback(heard.append))
        return heard


async def end_thread(database):
    """Let the thread of a connection end, as one does that has no memory left to go on with."""
    database._tx.put_nowait((None, lambda: aiosqlite.core._STOP_RUNNING_SENTINEL))
    await asyncio.to_thread(database._thread.join)


@pytest.fixture
async def bench(tmp_path):
    made = Bench(tmp_path / "store.db")
    await made.store.open()
    await made.broker._group.drained()  # the tick that an opening asks for is an answer of the store as well
    yield made
    await made.broker.close()
    await made.store.close()


async def test_before_it_is_open_it_is_not_ready(tmp_path):
    """Nothing is promised before recovery is done."""
    assert await Bench(tmp_path / "store.db").ask() == (503, "the store is not open yet")


async def test_a_read_only_store_is_not_ready(bench):
    """The idle store is tried, and the reason is SQLite's; it is opened anew and heals by itself."""
    await bench.on_writer(lambda connection: connection.execute("PRAGMA query_only=ON"))
    assert await bench.ask() == (200, None)
    bench.clock.advance(10)
    status, reason = await bench.ask()
    assert status == 503
    assert "readonly" in reason
    assert not (await bench.health.standing()).stuck  # and systemd leaves alone what knows its trouble
    await bench.ready_again()


async def test_a_store_held_by_another_is_not_ready(bench):
    """A look finds it at once, without a write; when the lock is gone it is ready, without a restart."""
    with holding(bench.path):
        bench.clock.advance(1)
        status, reason = await bench.ask()
        assert status == 503
        assert "another process" in reason
    await bench.ready_again()


async def test_a_dead_writer_is_told_and_replaced(bench):
    """Its thread has ended: who asks is told within a second, and the store opens itself again, with what it had."""
    first = await bench.broker.ask(send(to="@qa"))
    dead = bench.store._writer
    await end_thread(dead)
    bench.clock.advance(1)
    assert await bench.ask() == (503, "ThreadEnded: the thread of the store's connection has ended")
    await bench.ready_again()
    assert bench.store._writer is not dead
    assert (await bench.broker.ask(send(to="@qa"))).sequence == first.sequence + 1


async def test_what_waits_for_a_writer_that_dies_is_refused(bench):
    """A send that no thread will ever commit gets its 503 at once, not never; sent again, it is stored."""
    gate = threading.Event()
    hanging = asyncio.ensure_future(bench.on_writer(lambda _: gate.wait(20)))
    await asyncio.sleep(0)
    ending = asyncio.ensure_future(end_thread(bench.store._writer))
    await asyncio.sleep(0)
    sending = bench.broker.submit(send(to="@qa"))
    gate.set()
    await hanging
    await ending
    async with asyncio.timeout(5):
        with pytest.raises(Problem, match="store-unavailable"):
            await sending
    await bench.ready_again()
    assert (await bench.broker.ask(send(to="@qa"))).sequence == 1


async def test_a_dead_reader_is_replaced(bench):
    """The next who reads is refused, may try again, and is answered."""
    await end_thread(bench.store._reader)
    with pytest.raises(Problem, match="store-unavailable"):
        await bench.store.read(read_forgotten_us)
    await bench.ready_again()
    assert await bench.store.read(read_forgotten_us) == 0


async def test_a_store_that_cannot_be_opened_writes_no_log_ahead(bench, monkeypatch):
    """However often it is tried: not before a commit has shown that the disk works; then it is written, once."""
    log, tries = bench.path.with_name("store.db-wal"), []
    assert log.stat().st_size >= BUSY_STORE.wal_bytes
    await bench.store.close()

    def fail(connection):
        tries.append(log.stat().st_size)
        if len(tries) < 4:
            raise OSError("the disk fails")

    monkeypatch.setattr(engine, "check_live_part", fail)
    monkeypatch.setattr(mending, "REOPEN_SECONDS", 0.01)
    again = Bench(bench.path)
    await again.store.start()
    await again.ready_again()
    assert max(tries) < BUSY_STORE.wal_bytes // 10
    assert log.stat().st_size >= BUSY_STORE.wal_bytes
    await again.broker.close()
    await again.store.close()


async def test_a_hanging_disk_is_not_ready(bench, monkeypatch):
    """However many ask, each is told within a second, and one probe waits for the disk; it heals when that is back."""
    gate = threading.Event()
    hanging = asyncio.ensure_future(bench.on_writer(lambda _: gate.wait(20)))
    bench.clock.advance(1)
    answers = await asyncio.gather(*(bench.ask() for _ in range(100)))
    assert {status for status, _ in answers} == {503}
    assert "hangs" in answers[0][1]
    bench.clock.advance(7)
    monkeypatch.setattr("adapter.store.engine.PATIENCE_SECONDS", BUSY_SECONDS)  # less than has gone by
    begun = time.monotonic()
    assert await bench.ask() == (503, "no answer for 7.0 s: the disk hangs, or another process holds the store")
    assert time.monotonic() - begun < BUSY_SECONDS
    assert bench.store._writer._tx.qsize() == 1
    assert (await bench.health.standing()).stuck  # for systemd, which starts what does not answer anew
    gate.set()
    await hanging
    await bench.ready_again()


async def test_those_who_ask_together_share_a_look(bench):
    """A hundred questions are one lock taken and let go, and nothing is written; those soon after ask nothing."""
    heard = await bench.statements()
    bench.clock.advance(1)
    assert set(await asyncio.gather(*(bench.ask() for _ in range(100)))) == {(200, None)}
    assert heard == ["BEGIN IMMEDIATE", "COMMIT"]
    bench.clock.advance(0.2)
    assert await bench.ask() == (200, None)
    assert len(heard) == 2


async def test_a_store_at_work_is_not_probed(bench):
    """Its own commits are the proof."""
    heard = await bench.statements()
    for _ in range(40):
        bench.clock.advance(1)
        await bench.broker.ask(send(to="@qa"))
        await bench.ask()
    assert not any("proofs" in statement for statement in heard)
    assert heard.count("BEGIN IMMEDIATE") == 40


async def test_groups_that_write_nothing_prove_no_disk(bench):
    """Polls that find nothing are no sign that a message could be stored: the write is due all the same."""
    heard = await bench.statements()
    for _ in range(11):
        bench.clock.advance(1)
        assert (await bench.broker.poll("qa", 1, 0)).handed == []
        bench.clock.advance(0.3)
        await bench.ask()
    assert sum("proofs" in statement for statement in heard) == 1


async def test_a_probe_that_fails_refuses_what_waits_behind_it(bench, caplog):
    """A store that could not write is thrown away, for the probe's reason; the send is refused, and may come again."""
    await bench.on_writer(lambda connection: connection.execute("PRAGMA query_only=ON"))
    bench.clock.advance(10)
    asking, gate = asyncio.ensure_future(bench.ask()), threading.Event()
    await asyncio.sleep(0)  # the probe is a task of its own, and begins a turn later
    await asyncio.sleep(0)
    between = asyncio.ensure_future(bench.on_writer(lambda _: gate.wait(20)))
    sending = bench.broker.submit(send(to="@qa"))
    status, reason = await asking
    assert status == 503
    assert "readonly" in reason
    gate.set()
    await between
    with pytest.raises(Problem, match="store-unavailable"):
        await sending
    assert "commit-failed" not in caplog.text
    await bench.ready_again()
    assert (await bench.broker.ask(send(to="@qa"))).sequence == 1


async def test_an_idle_adapter_on_a_full_disk_says_so(start):
    """Nobody has sent anything. It lives, is not ready, and is ready again when there is room."""
    link = await start(store_probe_seconds=0.1)
    pm = await link.client("pm")

    async def says(status):
        async def asked():
            return (await health(link.config.adapter_socket))[0] == status

        await until(asked, f"health says {status}")

    with full_disk(link.adapter):
        await says(503)
        assert (await health(link.config.adapter_socket))[1]["reason"]
        assert (await pm.call("GET", "/health/live")).status == 200
    await says(200)
    assert (await pm.send("@qa"))["answer"]["channel_sequence_id"] == 1
