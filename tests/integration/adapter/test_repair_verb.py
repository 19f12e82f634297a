"""`multiclaw repair`: it tells what would be lost, does what loses nothing, and the rest only when it is told to."""

import asyncio
import contextlib
import json
import shutil

import pytest
from typer.testing import CliRunner

from adapter.broker import Broker
from adapter.core.commands import Tick
from adapter.store.backups import back_up_stopped
from adapter.store.engine import Store
from adapter.store.full_check import check_everything
from adapter.store.reads import read_range
from adapter.store.reserve import read_reserved
from adapter.store.restoring import plan_restore
from multiclaw.cli import build
from multiclaw.cli.exits import FAILED, UNAVAILABLE, Exit
from shared.clock import Clock
from shared.config import load
from shared.database import StoreLock, library_checksums, page_file
from tests.support.census import take_census
from tests.support.factories import membership, noise, policy, send
from tests.support.mortal import copy_store
from tests.support.store_hand import reading

PAGE = 8192
MESSAGES = 40

pytestmark = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


async def fill(path, messages=MESSAGES):
    """Send so many; the files of a crash stand in `killed.db`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    broker = Broker(store, Clock())
    for n in range(messages):
        await broker.ask(send(to="@qa" if n % 3 else "product", payload={"n": n, "text": noise(n, 1_200)}))
    await broker.ask(Tick())
    copy_store(path, path.with_name("killed.db"))
    await broker.close()
    await store.close()


@pytest.fixture
async def deployment(tmp_path, monkeypatch):
    """The configuration of one that was made, with messages in its store."""
    monkeypatch.setattr(page_file, "_PAUSE_SECONDS", 0)
    config = tmp_path / "d" / "multiclaw.toml"
    assert CliRunner().invoke(build("init"), ["init", "--dir", str(config.parent)]).exit_code == 0
    await fill(load(config).adapter_store)
    return config


async def repair(config, *options):
    """Status and output of the verb."""

    def run():
        return CliRunner().invoke(build("repair"), ["repair", "--config", str(config), *options])

    ended = await asyncio.to_thread(run)
    if isinstance(ended.exception, Exit):
        return ended.exception.status, ended.exception.words
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, ended.stdout


def index_page(path):
    """Where a page of the index by sequence begins."""
    with reading(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_sequence'").fetchone()
    return (root - 1) * PAGE


def zero(path, start):
    """A page that is gone."""
    content = bytearray(path.read_bytes())
    content[start : start + PAGE] = b"\x01" * PAGE
    path.write_bytes(content)


async def test_a_store_that_is_whole_is_left_alone(deployment):
    """Nothing is written, and the status is 0."""
    path = load(deployment).adapter_store
    before = path.read_bytes()
    status, told = await repair(deployment)
    assert (status, path.read_bytes()) == (0, before)
    assert "nothing to repair" in told
    assert json.loads((await repair(deployment, "--json"))[1])["whole"]


async def test_what_loses_nothing_is_done(deployment):
    """First only told, and then done; the damaged files are kept."""
    path = load(deployment).adapter_store
    before = take_census(path)
    zero(path, index_page(path))
    harmed = path.read_bytes()
    status, told = await repair(deployment, "--dry-run")
    assert (status, path.read_bytes()) == (FAILED, harmed)
    assert "nothing would be lost" in told
    status, told = await repair(deployment, "--json")
    document = json.loads(told)
    assert (status, document["whole"], document["messages"], document["lost"]) == (0, True, MESSAGES, [])
    assert list(before.faults_of(take_census(path))) == []
    (kept,) = (path.parent / "kept").iterdir()
    assert (document["kept"], (kept / "store.db").read_bytes()) == (str(kept), harmed)


async def test_what_loses_something_is_done_when_it_is_accepted(deployment):
    """Told with channel and sequences, refused, and then done: all the rest is there, and numbers go on as before."""
    path = load(deployment).adapter_store
    before = take_census(path)
    zero(path, path.read_bytes().index(noise(30, 1_200).encode()) // PAGE * PAGE)
    harmed = path.read_bytes()
    status, told = await repair(deployment)
    assert (status, path.read_bytes()) == (FAILED, harmed)
    assert "would be lost: " in told
    assert "--accept-loss" in told
    status, told = await repair(deployment, "--accept-loss", "--json")
    document = json.loads(told)
    lost = {(each["channel"], n) for each in document["lost"] for n in range(each["from"], each["to"] + 1)}
    after = take_census(path)
    assert (status, before.messages.keys() - after.messages.keys()) == (0, lost)
    assert 1 <= len(lost) <= 6
    await fill(path, 1)
    new = take_census(path).messages
    assert {place for place in new.keys() - after.messages.keys() if place[0] == "product"} == {("product", 15)}
    for who in ("human-governor", "orchestrator"):
        (letter,) = [json.loads(envelope) for (channel, _), envelope in new.items() if channel == f"@{who}"]
        assert letter["payload"]["lost"] == sorted(document["lost"], key=lambda each: each["channel"])
        assert next(iter(lost))[0] in letter["payload"]["reason"]
    assert (await asyncio.to_thread(check_everything, path, lambda *_: None)).faults == []


@contextlib.asynccontextmanager
async def opened(path):
    """The store and a broker, as the adapter has them."""
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    broker = Broker(store, Clock())
    yield store, broker
    await broker.close()
    await store.close()


async def holes_of(store, channel, last):
    """What is not there of a channel."""
    return (await store.read(lambda db, names: read_range(db, names, channel, 1, last))).holes


async def test_what_is_lost_is_recorded_for_its_receivers(deployment):
    """Just these numbers, by the name of the repair: for whoever polls, and for whoever reads the range. A second
    repair, of what stands beside it, has another name, and does not tell again what the first has told."""
    path = load(deployment).adapter_store
    names = []
    for _ in range(2):
        before, content = take_census(path).messages, path.read_bytes()
        places = (content.find(noise(n, 1_200).encode()) for n in range(20, MESSAGES))
        zero(path, next(place for place in places if place > 0) // PAGE * PAGE)
        status, told = await repair(deployment, "--accept-loss", "--json")
        assert status == 0
        lost = before.keys() - take_census(path).messages.keys()
        async with opened(path) as (store, broker):
            since = store.losses.since(names[-1] if names else 0)
            assert {
                (c, n) for c, ranges in since.items() for each in ranges for n in range(each.first, each.last + 1)
            } == lost
            assert store.losses.base == 0
            names.append(store.losses.newest)
            channel, sequence = max(lost)
            holes = await holes_of(store, channel, sequence)
            assert holes[-1][1:] == (sequence, "restored")
            assert {reason for _, _, reason in holes} == {"restored"}
            given = await broker.ask(send(to="@qa"))
            assert given.sequence == max(n for c, n in before if c == "@qa") + 1
    assert names[1] > names[0]
    assert {(each["channel"], each["from"]) for each in json.loads(told)["lost"]} >= {min(lost)}


async def test_counters_that_nothing_vouches_for(deployment):
    """They come from a backup: then every channel goes on behind all messages that there were, also one made later."""
    path, config = load(deployment).adapter_store, load(deployment)
    await asyncio.to_thread(back_up_stopped, path, config.backup_folder, Clock().wall_us(), lambda *_: None)
    await fill(path)
    with reading(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'channels'").fetchone()
    reserved = read_reserved(path)
    zero(path, (root - 1) * PAGE)
    status, told = await repair(deployment, "--accept-loss", "--json")
    assert status == 0, told
    async with opened(path) as (store, broker):
        for channel in ("@qa", "product", "@growth"):
            assert (await broker.ask(send(to=channel))).sequence >= reserved.messages_end
        assert store.losses.of("@growth") != []
        assert store.losses.base >= reserved.messages_end


async def test_where_the_end_is_not_known_numbers_jump(deployment):
    """Behind all that can have been given, by what outlives the store; from where on each channel has lost what it had
    is told and recorded, and a restore later on goes on behind that."""
    path = load(deployment).adapter_store
    copy_store(path.with_name("killed.db"), path)
    path.with_name("store.db-wal").unlink()
    status, told = await repair(deployment)
    assert status == FAILED
    assert "its log is gone" in told
    status, told = await repair(deployment, "--accept-loss", "--json")
    document = json.loads(told)
    assert status == 0
    assert {each["to"] for each in document["lost"]} == {None}
    reserved, older = read_reserved(path), path.with_name("older.db")
    shutil.copyfile(path, older)
    async with opened(path) as (store, broker):
        for channel in ("@qa", "product", "@growth"):
            (lost,) = store.losses.of(channel)
            assert lost == (1, reserved.messages_end)
            assert (await broker.ask(send(to=channel))).sequence == lost.last + 1
        assert store.committed() > reserved.messages_end
        repaired = store.losses.newest
    plan = await asyncio.to_thread(plan_restore, path, older)
    assert plan.end.messages_end > repaired


async def test_it_refuses_beside_an_adapter(deployment):
    """By the lock, and names the process."""
    lock = StoreLock(load(deployment).adapter_state)
    status, words = await repair(deployment, "--accept-loss")
    lock.release()
    assert status == FAILED
    assert "stop it first" in words


async def test_what_cannot_be_repaired_or_read(deployment, monkeypatch):
    """A store that is gone is for `restore`; a disk that does not give it proves nothing."""
    path = load(deployment).adapter_store

    def fail(*_):
        raise OSError(5, "Input/output error")

    zero(path, index_page(path))
    with monkeypatch.context() as patch:
        patch.setattr("adapter.store.repairing.copy_files", fail)
        status, words = await repair(deployment)
        assert status == UNAVAILABLE
        assert "nothing was changed" in words
    path.unlink()
    status, words = await repair(deployment)
    assert status == FAILED
    assert "multiclaw restore" in words
