"""A backup in the place of the store: no number is given twice, what comes again comes again, and all are told."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import adapter.store.reserve
import adapter.store.restoring
from adapter.backup_keeper import BackupKeeper
from adapter.broker import Broker
from adapter.core.commands import Ack, ProposeTopology
from adapter.core.losses import UNSURE_NUMBERS
from adapter.store.engine import Store
from adapter.store.reads import read_range
from adapter.store.reserve import MESSAGES_AHEAD, read_reserved, reserved_path
from adapter.store.restoring import carry_out, plan_restore
from adapter.store.room import NoRoomError
from shared.backups import Backups
from shared.config import ConfigurationFault
from shared.database import Damage, SqliteError
from shared.database.library import LIBRARY
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.topology import TopologyChange
from tests.support.clock import SettableClock
from tests.support.deployment import until
from tests.support.factories import membership, policy, send

NOW_US = 1_900_000_000_000_000


class Bench:
    """A store and what is done with it."""

    def __init__(self, path):
        self.path = path
        self.clock = SettableClock()
        self.store = Store(path, membership(), policy(queue_max=100_000, alert_window_seconds=10), self.clock)
        self.broker = Broker(self.store, self.clock)
        settings = Backups(enabled=False, keep=100)
        self.keeper = BackupKeeper(self.broker, self.store, settings, path.parent / "backups", self.clock)

    async def backup(self):
        """One more; its path."""
        before = self.keeper.ask().attempts
        await until(lambda: self.keeper.state().attempts > before, "it is made")
        assert self.keeper.state().failure is None
        return Path(self.keeper.state().file)

    async def sent(self, to="@qa", **fields):
        """The sequence that a message got."""
        return (await self.broker.ask(send(to=to, **fields))).sequence

    async def poll(self, agent="qa", count=10):
        """Payloads and tokens of what is handed over."""
        return (await self.broker.poll(agent, count, 0)).handed

    async def range(self, channel, first, final):
        """Messages of a channel."""
        return await self.store.read(lambda db, names: read_range(db, names, channel, first, final))


@contextlib.asynccontextmanager
async def opened(path):
    """A store that works until the end of the block."""
    bench = Bench(path)
    await bench.store.open()
    try:
        async with bench.keeper.running():
            yield bench
    finally:
        await bench.broker.close()
        await bench.store.close()


async def restore(path, backup):
    """As the command does it; the plan, and where the old files are."""
    plan = await asyncio.to_thread(plan_restore, path, backup)
    return plan, await asyncio.to_thread(carry_out, path, plan, NOW_US, lambda _: None)


@pytest.fixture
async def restored(tmp_path):
    """A store with a history: three messages, a backup, four more, and the backup is put in place."""
    path = tmp_path / "store.db"
    async with opened(path) as bench:
        keys = [send(to="@qa"), send(to="@qa", payload={"text": "old"})]
        for command in keys:
            await bench.broker.ask(command)
        await bench.sent("product")
        (first, *_) = await bench.poll(count=1)
        backup = await bench.backup()
        await bench.broker.ask(Ack("qa", (first.delivery_id,), {}))
        lost = send(to="@qa", payload={"text": "lost"})
        assert (await bench.broker.ask(lost)).sequence == 3
        for _ in range(3):
            await bench.sent("product")
    reserved = read_reserved(path)
    plan, kept = await restore(path, backup)
    return SimpleNamespace(path=path, backup=backup, reserved=reserved, plan=plan, kept=kept, keys=keys, lost=lost)


async def test_a_plan_tells_what_it_costs(restored):
    """What the present store has that the backup has not, and how far numbers go on."""
    plan = restored.plan
    assert (plan.state.last_message_id, plan.present.last_message_id, plan.seen) == (3, 7, 7)
    assert plan.sure
    assert plan.end.messages_end == restored.reserved.messages_end + 1
    assert plan.jump.by == restored.reserved.messages_end - 3


async def test_no_number_is_given_twice(restored):
    """Neither of a message, nor of any channel, nor of one that comes into being after it, nor of the topology."""
    jump = restored.plan.jump.by
    async with opened(restored.path) as bench:
        assert bench.store.committed() >= restored.reserved.messages_end
        assert await bench.sent("@qa") == 2 + jump + 1
        assert await bench.sent("product") == 1 + jump + 1
        versions = await bench.store.read(
            lambda db, _: db.execute("SELECT version, standing FROM topologies ORDER BY version").fetchall()
        )
        assert versions == [(1, "superseded"), (restored.plan.end.topologies_end, "current")]
        change = TopologyChange.model_validate({"channels": {"add": {"fresh": {"members": ["qa", "pm"]}}}})
        proposed = await bench.broker.ask(ProposeTopology("orchestrator", change, "why not"))
        assert proposed.version == restored.plan.end.topologies_end + 1


async def test_a_channel_that_comes_into_being_again_goes_on_behind_all_jumps(restored):
    """It may have been there, and its numbers given, in the state that was lost."""
    store = Store(restored.path, membership(fresh=("pm", "qa")), policy(), SettableClock())
    await store.open()
    broker = Broker(store, SettableClock())
    assert (await broker.ask(send(to="fresh"))).sequence == restored.plan.jump.by + 1
    with pytest.raises(Problem) as gone:
        await store.read(lambda db, names: read_range(db, names, "fresh", 1, 5))
    assert gone.value.extra["lost"] == [{"from": 1, "to": 5, "reason": "restored"}]
    await broker.close()
    await store.close()


async def test_a_range_says_what_was_lost(restored):
    """Beside what is not retained, in a refusal and within a page."""
    last = 2 + restored.plan.jump.by
    async with opened(restored.path) as bench:
        with pytest.raises(Problem) as gone:
            await bench.range("@qa", 3, 5)
        assert gone.value.extra["lost"] == [{"from": 3, "to": 5, "reason": "restored"}]
        assert "put back to an older state, or repaired" in gone.value.detail
        await bench.sent("@qa")
        page = await bench.range("@qa", 1, last + 1)
        assert page.holes == [(3, last, "restored")]
        assert len(page.envelopes) == 3


async def test_what_was_settled_since_comes_again(restored):
    """Also what was in somebody's hands when the backup was made: at once, and free."""
    async with opened(restored.path) as bench:
        handed = await bench.poll()
        assert [json.loads(one.envelope)["channel_sequence_id"] for one in handed[:2]] == [1, 2]


async def test_a_key_is_known_as_far_as_its_message_is(restored):
    """A send that is repeated: a duplicate where its message is in the backup, new where it was lost."""
    async with opened(restored.path) as bench:
        again = await bench.broker.ask(restored.keys[1])
        assert (again.duplicate, again.sequence) == (True, 2)
        fresh = await bench.broker.ask(restored.lost)
        assert (fresh.duplicate, fresh.sequence) == (False, 3 + restored.plan.jump.by)


async def test_the_orchestrator_and_the_governor_are_told_once(restored):
    """Of the channels, the ranges and the time, over restarts."""
    for turn in range(2):
        async with opened(restored.path) as bench:
            for who in ("orchestrator", GOVERNOR):
                told = []

                async def hear(who=who, told=told):
                    told += [json.loads(one.envelope) for one in await bench.poll(who)]
                    return any(one["type"] == "alert.restore/1" for one in told)

                if turn:
                    assert not await hear()
                    continue
                await until(hear, f"{who} is told")
                (alert,) = [one["payload"] for one in told if one["type"] == "alert.restore/1"]
                assert {"channel": "@qa", "from": 3, "to": 2 + restored.plan.jump.by} in alert["lost"]
                assert alert["as_of"].startswith("2027-01-15T08:00:00")


async def test_the_files_of_before_are_kept(restored):
    """Whole, in a folder of their own; what tells which numbers were given stays."""
    with contextlib.closing(LIBRARY.connect(restored.kept / "store.db")) as old:
        assert old.execute("SELECT max(id) FROM messages").fetchone() == (7,)
    assert restored.backup.exists()
    assert read_reserved(restored.path).messages_end >= restored.reserved.messages_end


async def test_a_second_restore_goes_on_behind_the_first(restored):
    """Of the same old backup: what was sent after the first is lost as well, and no number of it comes again."""
    async with opened(restored.path) as bench:
        seen = [await bench.sent("@qa") for _ in range(5)]
        first = bench.store.losses.newest
    await restore(restored.path, restored.backup)
    async with opened(restored.path) as bench:
        assert await bench.sent("@qa") > seen[-1]
        assert bench.store.losses.newest > first


async def test_numbers_of_a_store_that_is_gone_are_known(tmp_path):
    """By the reserved end alone: the store, its log and its witness are deleted."""
    path = tmp_path / "store.db"
    async with opened(path) as bench:
        await bench.sent()
        backup = await bench.backup()
        numbers = [await bench.sent() for _ in range(50)]
    for file in path.parent.glob("store.db*"):
        if file != reserved_path(path):
            file.unlink()
    plan, _ = await restore(path, backup)
    assert (plan.present, plan.sure) == (None, True)
    async with opened(path) as bench:
        assert await bench.sent() > numbers[-1]


async def test_where_nothing_tells_which_numbers_were_given_many_are_passed_over(tmp_path):
    """And it is said."""
    path = tmp_path / "store.db"
    async with opened(path) as bench:
        await bench.sent()
        backup = await bench.backup()
        await bench.sent()
    for file in path.parent.glob("store.db*"):
        file.unlink()
    plan = await asyncio.to_thread(plan_restore, path, backup)
    assert not plan.sure
    assert plan.jump.by >= UNSURE_NUMBERS


async def test_an_older_store_is_put_in_place_as_a_backup_is(tmp_path):
    """Any whole file of the store will do: its numbers go on behind all that were given."""
    path, older = tmp_path / "store.db", tmp_path / "older.db"
    async with opened(path) as bench:
        await bench.sent()
    shutil.copyfile(path, older)
    async with opened(path) as bench:
        numbers = [await bench.sent() for _ in range(3)]
    plan, _ = await restore(path, older)
    assert plan.as_of_us
    async with opened(path) as bench:
        assert await bench.sent() > numbers[-1]
        assert bench.store.losses.of("@qa")[0].first == 2


@pytest.mark.parametrize("what", ["garbage", "torn", "flipped", "foreign", "newer", "empty", "gone"])
async def test_what_is_no_backup_of_ours_is_refused(restored, tmp_path, what):
    """Before anything is changed."""
    bad = tmp_path / "bad.db"
    content = restored.backup.read_bytes()
    if what in {"foreign", "newer"}:
        if what == "newer":
            bad.write_bytes(content)
        with contextlib.closing(LIBRARY.connect(bad, isolation_level=None)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (n)")
            connection.execute("PRAGMA user_version=99" if what == "newer" else "SELECT 1")
    elif what != "gone":
        flipped = bytearray(content)
        flipped[50_000] ^= 1
        bad.write_bytes({"garbage": b"x" * 20_000, "torn": content[:-9_000], "flipped": flipped, "empty": b""}[what])
    before = restored.path.read_bytes()
    with pytest.raises((Damage, ConfigurationFault, SqliteError, FileNotFoundError)):
        await asyncio.to_thread(plan_restore, restored.path, bad)
    assert restored.path.read_bytes() == before


async def test_a_disk_that_is_full_leaves_the_store_as_it_was(restored, monkeypatch):
    """Whether that is known before, or met in the middle."""
    plan = await asyncio.to_thread(plan_restore, restored.path, restored.backup)
    before = restored.path.read_bytes()
    room = SimpleNamespace(f_bavail=10, f_frsize=1_000_000, f_flag=0)
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda _: room)
        with pytest.raises(NoRoomError):
            carry_out(restored.path, plan, NOW_US, lambda _: None)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (restored.backup.stat().st_size - 10_000, limits[1]))
    try:
        with pytest.raises((OSError, SqliteError)):
            carry_out(restored.path, plan, NOW_US, lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert restored.path.read_bytes() == before
    assert not list(restored.path.parent.glob("store.db-restoring*"))


@pytest.mark.parametrize("step", ["copying", "renumbering", "verifying", "replacing"])
async def test_a_restore_that_is_killed_is_done_or_not(restored, monkeypatch, step):
    """What is left of it is no store; the next one begins anew. The swap itself is proven elsewhere."""
    plan = await asyncio.to_thread(plan_restore, restored.path, restored.backup)

    class KilledError(BaseException):
        """SIGKILL: nothing of ours runs any more."""

    def die(name):
        if name == step:
            monkeypatch.setattr(type(restored.path), "unlink", lambda *_, **__: None)
            raise KilledError

    with pytest.raises(KilledError):
        carry_out(restored.path, plan, NOW_US, die)
    monkeypatch.undo()
    async with opened(restored.path) as bench:
        await bench.sent()
    await restore(restored.path, restored.backup)
    async with opened(restored.path) as bench:
        assert (await bench.range("@qa", 1, 2)).holes == []


async def test_numbers_are_reserved_before_they_are_given(tmp_path, monkeypatch):
    """Any number that a sender was told lies below the end on the disk; the file is written once in so many."""
    monkeypatch.setattr(adapter.store.reserve, "MESSAGES_AHEAD", 7)
    path = tmp_path / "store.db"
    writes = []
    write = adapter.store.reserve.write_durably
    monkeypatch.setattr(adapter.store.reserve, "write_durably", lambda *a: (writes.append(a), write(*a)))
    async with opened(path) as bench:
        for _ in range(40):
            await bench.sent()
            assert bench.store.committed() < read_reserved(path).messages_end
    assert len(writes) <= 40 // 7 + 2


async def test_a_number_that_cannot_be_reserved_is_not_given(tmp_path, monkeypatch):
    """The send is refused and may be tried again; when the disk takes it, numbers go on without a hole."""
    monkeypatch.setattr(adapter.store.reserve, "MESSAGES_AHEAD", 3)
    path = tmp_path / "store.db"
    async with opened(path) as bench:
        for _ in range(3):
            await bench.sent()

        def fail(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(adapter.store.reserve, "write_durably", fail)
            with pytest.raises(Problem, match="store-unavailable"):
                await bench.sent()
        await until(lambda: bench.store.fault is None, "it is open again")
        assert await bench.sent() == 4


@pytest.mark.parametrize("text", ["", "{", "[]", '{"messages_end": "x", "topologies_end": 1}', '{"messages_end": 1}'])
async def test_an_unreadable_reserve_is_made_anew(tmp_path, text):
    """From what the store itself has counted, and it is said."""
    path = tmp_path / "store.db"
    async with opened(path) as bench:
        await bench.sent()
    reserved_path(path).write_text(text)
    async with opened(path) as bench:
        assert await bench.sent() == 2
    assert read_reserved(path).messages_end > MESSAGES_AHEAD
