"""Backups of a store that works: made when due, whole, bounded, and never at the cost of the store."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import adapter.backup_keeper
from adapter.backup_keeper import BackupKeeper
from adapter.broker import Broker
from adapter.core.backup_plan import FIRST_US, RETRY_US, parse_name
from adapter.http.health import Health
from adapter.store.backups import back_up_stopped, list_backups
from adapter.store.engine import Store
from adapter.store.full_check import check_everything
from shared.backups import Backups
from shared.config import ConfigurationFault
from shared.database import Damage, refuse_copy, verify_backup
from shared.database.backup import connect_copy
from shared.names import GOVERNOR
from shared.times import MICROSECONDS
from tests.support.clock import SettableClock
from tests.support.deployment import until
from tests.support.factories import claim, membership, noise, policy, send

HOUR = 3_600


class Bench:
    """A store, its keeper of backups, and the time."""

    def __init__(self, folder, **settings):
        self.path = folder / "store.db"
        self.folder = folder / "backups"
        self.clock = SettableClock()
        self.store = Store(self.path, membership(), policy(queue_max=10_000, alert_window_seconds=10), self.clock)
        self.broker = Broker(self.store, self.clock)
        self.keeper = BackupKeeper(self.broker, self.store, Backups(**settings), self.folder, self.clock)

    @contextlib.asynccontextmanager
    async def open(self):
        """The store is open, and backups are made."""
        await self.store.open()
        try:
            async with self.keeper.running():
                yield self
        finally:
            await self.broker.close()
            await self.store.close()

    async def send(self, count=1, **fields):
        """So many messages."""
        for _ in range(count):
            await self.broker.ask(send(**fields))

    async def attempt(self, before=None):
        """Wait for the end of an attempt; the state after it."""
        before = self.keeper.state().attempts if before is None else before
        await until(lambda: self.keeper.state().attempts > before, "an attempt is over")
        return self.keeper.state()

    async def make(self):
        """Ask for one, and wait for it."""
        before = self.keeper.ask().attempts
        return await self.attempt(before)

    def names(self):
        """What is in the folder."""
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The keeper looks at the time without a pause."""
    monkeypatch.setattr(adapter.backup_keeper, "_LOOK_SECONDS", 0.01)


@pytest.fixture
async def bench(tmp_path):
    """A store with the default schedule."""
    async with Bench(tmp_path).open() as opened:
        yield opened


def count(path):
    """Messages in a backup, and the newest number."""
    with contextlib.closing(connect_copy(path)) as copy:
        return copy.execute("SELECT count(*), max(id) FROM messages").fetchone()


async def test_backups_are_made_by_themselves(bench):
    """A minute after the first message, then every six hours; private, verified, and named by their content."""
    bench.clock.advance(10 * HOUR)
    await bench.send(3)
    while not list_backups(bench.folder):
        bench.clock.advance(1)
        await asyncio.sleep(0.002)
    (first,) = list_backups(bench.folder)
    assert bench.clock.steady_us() - first.made_at_us >= 0
    path = bench.folder / first.name
    verify_backup(path)
    assert count(path) == (3, 3)
    assert first.last_message_id == 3
    assert (path.stat().st_mode & 0o777, bench.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    await until(lambda: bench.keeper.state().running is None, "it is noted")
    await bench.send(2)
    bench.clock.advance(6 * HOUR)
    state = await bench.attempt()
    assert (state.last_message, state.bytes, state.failure) == (
        5,
        (bench.folder / bench.names()[1]).stat().st_size,
        None,
    )
    assert [backup.last_message_id for backup in list_backups(bench.folder)] == [5, 3]


async def test_a_backup_holds_what_its_name_says_beside_sends(bench):
    """Each message up to its number, and none behind it, though sends go on all the time."""
    await bench.send(300, payload={"text": noise(0, 3_000)})

    async def traffic():
        while True:
            await bench.send(payload={"text": noise(1, 3_000)})

    sending = asyncio.create_task(traffic())
    try:
        states = [await bench.make() for _ in range(3)]
    finally:
        sending.cancel()
    for state in states:
        assert state.failure is None
        path = Path(state.file)
        last = parse_name(path.name).last_message_id
        assert count(path) == (last, last)


async def test_old_ones_go_and_foreign_files_stay(tmp_path):
    """The newest and one of a day are kept; what has another name is nobody's to remove."""
    async with Bench(tmp_path, keep=2, keep_days=2, enabled=False).open() as bench:
        bench.folder.mkdir()
        (bench.folder / "notes.txt").touch()
        await bench.send()
        for _ in range(7):
            bench.clock.advance(12 * HOUR)
            assert (await bench.make()).failure is None
        assert len(list_backups(bench.folder)) == 3
        assert "notes.txt" in bench.names()


async def test_two_within_a_second_are_two(bench):
    """Neither takes the place of the other."""
    await bench.send()
    await bench.make()
    await bench.make()
    assert len(list_backups(bench.folder)) == 2


async def test_without_a_schedule_they_are_made_when_asked_for(tmp_path):
    """And only then."""
    async with Bench(tmp_path, enabled=False).open() as bench:
        await bench.send()
        bench.clock.advance(24 * HOUR)
        assert bench.keeper.state().schedule == "off"
        assert (await bench.make()).last_message == 1
        assert bench.keeper.state().attempts == 1


async def test_a_restart_knows_the_newest_and_clears_up(tmp_path):
    """What a killed process has left half done is removed; figures and times go on from the newest backup."""
    async with Bench(tmp_path).open() as bench:
        await bench.send()
        made = await bench.make()
    (bench.folder / "store.partial").write_text("half")
    (bench.folder / "store.partial-journal").write_text("half")
    async with Bench(tmp_path).open() as again:
        state = again.keeper.state()
        assert (state.file, state.last_message, state.bytes) == (made.file, 1, made.bytes)
        assert len(again.names()) == 1
        again.clock.advance(6 * HOUR - 10)
        await asyncio.sleep(0)
        assert again.keeper.state().attempts == 0
        again.clock.advance(10)
        assert (await again.attempt()).failure is None


async def test_health_and_metrics_tell_of_backups(bench):
    """When the newest one was made, its size, and why there is no newer one."""
    health = Health(bench.store, lambda: bench.keeper.troubles, bench.keeper.state)
    await bench.send()
    made = await bench.make()
    told = json.loads((await health.ready(None)).body)
    assert told["backups"] == made.model_dump()
    assert told["warnings"] == []
    text = (await health.metrics(None)).body.decode()
    assert f"multiclaw_backup_bytes {float(made.bytes)}" in text
    assert "multiclaw_backup_last_failure_seconds 0.0" in text
    assert "multiclaw_backup_last_success_seconds 1.8" in text


async def alarms(bench):
    """Summaries of what the Governor was told."""
    await bench.broker.ask(send())  # the tick comes with the next group at the latest
    handed = []

    async def told():
        handed.extend((await bench.broker.poll(GOVERNOR, 10, 0)).handed)
        return bool(handed)

    await until(told, "the Governor is told")
    return [json.loads(one.envelope)["payload"] for one in handed]


async def test_a_disk_with_too_little_room_is_left_alone(bench, monkeypatch):
    """Nothing is written, the Governor is told what to do, and a quarter of an hour later it is tried again."""
    await bench.send()
    room = SimpleNamespace(f_bavail=10, f_frsize=1_000_000, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    state = await bench.make()
    assert "needs 64 MiB free" in state.failure
    assert "[backups]" in state.failure
    assert bench.names() == []
    assert bench.keeper.troubles == [f"the last backup failed: {state.failure}"]
    (told,) = await alarms(bench)
    assert told["reason"] == "the disk has too little room for it"
    monkeypatch.undo()
    monkeypatch.setattr(adapter.backup_keeper, "_LOOK_SECONDS", 0.01)
    bench.clock.advance(RETRY_US / MICROSECONDS)
    assert (await bench.attempt()).failure is None
    assert bench.keeper.troubles == []


async def test_a_disk_that_becomes_full_in_the_middle_costs_the_backup_and_nothing_else(bench):
    """Nothing of it is left, and the store goes on."""
    await bench.send(400, payload={"text": noise(0, 5_000)})
    size = bench.path.stat().st_size + bench.path.with_name("store.db-wal").stat().st_size
    await bench.store._writer.settle()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bench.path.stat().st_size - 500_000, before[1]))
    try:
        state = await bench.make()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert size
    assert state.failure is not None
    assert bench.names() == []
    assert (await alarms(bench))[0]["reason"] == "the disk fails"
    assert (await bench.make()).failure is None


async def test_a_copy_that_is_not_right_never_counts(bench, monkeypatch):
    """It is verified before it has its name: a page that was written wrong is found, and nothing is left."""
    await bench.send(50, payload={"text": noise(0, 5_000)})
    write = adapter.store.backups.stamp_copy

    def spoil(copy):
        write(copy)
        path = copy.execute("PRAGMA database_list").fetchone()[2]
        copy.execute("PRAGMA cache_size=0").fetchall()
        with open(path, "r+b") as file:  # noqa: PTH123
            file.seek(100_000)
            file.write(b"spoilt")

    monkeypatch.setattr(adapter.store.backups, "stamp_copy", spoil)
    state = await bench.make()
    assert "wrong pages" in state.failure
    assert bench.names() == []


@pytest.mark.parametrize("stage", ["copying", "verifying"])
async def test_the_end_of_the_process_gives_a_backup_up(tmp_path, monkeypatch, stage):
    """Within a second, whatever it is doing, and nothing of it is left."""
    monkeypatch.setattr(shared_backup(), "_REST_SECONDS_MIN", 0.05)
    async with contextlib.AsyncExitStack() as stack:
        bench = await stack.enter_async_context(Bench(tmp_path).open())
        await bench.send(500, payload={"text": noise(0, 9_000)})
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()
        verify = shared_backup().verify_backup

        def verifying(path, rest=None):
            loop.call_soon_threadsafe(reached.set)
            while True:
                verify(path, rest)

        if stage == "verifying":
            monkeypatch.setattr(shared_backup(), "verify_backup", verifying)
        bench.keeper.ask()
        if stage == "copying":
            await until(lambda: (bench.keeper.state().running or SimpleNamespace(bytes=0)).bytes > 0, "it copies")
        else:
            await asyncio.wait_for(reached.wait(), 10)
        begun = time.monotonic()
    assert time.monotonic() - begun < 1
    assert bench.names() == []


def shared_backup():
    """The module that copies."""
    import shared.database.backup  # noqa: PLC0415

    return shared.database.backup


async def test_a_store_that_fails_gives_a_backup_up_and_makes_it_later(bench, monkeypatch):
    """The connection is closed only after the copy has let go of it."""
    await bench.send(300, payload={"text": noise(0, 9_000)})
    monkeypatch.setattr(shared_backup(), "_REST_SECONDS_MIN", 0.02)
    before = bench.keeper.ask().attempts
    await until(lambda: (bench.keeper.state().running or SimpleNamespace(bytes=0)).bytes > 0, "it copies")
    bench.store._fail(OSError("the disk was pulled"))
    state = await bench.attempt(before)
    assert state.failure is not None
    await until(lambda: bench.store.fault is None, "the store is open again")
    monkeypatch.setattr(shared_backup(), "_REST_SECONDS_MIN", 0.001)
    assert (await bench.make()).failure is None
    assert await bench.broker.ask(claim("qa"))


async def test_a_backup_in_the_place_of_the_store_is_refused(tmp_path):
    """With clear words, and untouched: beside the log of another store it would be mixed with it."""
    async with Bench(tmp_path).open() as bench:
        await bench.send(3)
        state = await bench.make()
    shutil.copyfile(state.file, bench.path)
    content = bench.path.read_bytes()
    with pytest.raises(ConfigurationFault, match="multiclaw restore"):
        await Bench(tmp_path).store.start()
    with pytest.raises(ConfigurationFault, match="multiclaw restore"):
        check_everything(bench.path, lambda *_: None)
    with pytest.raises(ConfigurationFault, match="multiclaw restore"):
        back_up_stopped(bench.path, bench.folder, 0, lambda *_: None)
    assert bench.path.read_bytes() == content
    refuse_copy(tmp_path / "nothing")


async def test_a_store_that_is_stopped_is_copied_as_it_stands(tmp_path):
    """With what is only in its log; the store's files are as they were."""
    async with Bench(tmp_path).open() as bench:
        await bench.send(3)
        kept = tmp_path / "kept"
        kept.mkdir()
        for suffix in ("", "-wal", "-mark", "-witness"):
            if (path := bench.path.with_name(f"store.db{suffix}")).exists():
                shutil.copyfile(path, kept / path.name)
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    made = await asyncio.to_thread(
        back_up_stopped, kept / "store.db", kept / "b", bench.clock.wall_us(), lambda *_: None
    )
    assert made.last_message_id == 3
    assert count(kept / "b" / made.name) == (3, 3)
    assert {name: (kept / name).read_bytes() for name in before} == before


async def test_a_store_that_is_not_whole_is_not_copied(tmp_path):
    """One that lost its log, or lacks messages that were seen in it, would only make a backup that misleads."""
    async with Bench(tmp_path).open() as bench:
        await bench.send(3)
        await asyncio.to_thread(bench.store.integrity.note, 3)
        kept = tmp_path / "kept"
        kept.mkdir()
        for suffix in ("", "-mark", "-witness"):
            shutil.copyfile(bench.path.with_name(f"store.db{suffix}"), kept / f"store.db{suffix}")
    with pytest.raises(Damage):
        await asyncio.to_thread(back_up_stopped, kept / "store.db", kept / "b", 0, lambda *_: None)
    assert not (kept / "b").exists()


async def test_the_start_waits_for_no_backup(tmp_path):
    """One that is long due is made a minute later."""
    async with Bench(tmp_path).open() as bench:
        await bench.send()
        await bench.make()
    again = Bench(tmp_path)
    again.clock.advance(48 * HOUR)
    async with again.open():
        for _ in range(20):
            await asyncio.sleep(0)
        assert again.keeper.state().attempts == 0
        again.clock.advance(FIRST_US / MICROSECONDS)
        assert (await again.attempt()).failure is None
