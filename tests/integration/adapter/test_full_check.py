"""The whole check of a store: it finds what is wrong, changes nothing, and takes no error of the disk for damage."""

import asyncio
import json
import random
import sqlite3

import pytest
from typer.testing import CliRunner

from adapter.broker import Broker
from adapter.store import full_check
from adapter.store.engine import Store
from adapter.store.full_check import check_everything, check_pages
from adapter.store.witness import witness_path
from multiclaw.cli import build
from multiclaw.cli.exits import UNAVAILABLE, Exit
from shared.clock import Clock
from shared.config import load
from shared.database import StoreLock, library_checksums, page_file
from tests.support.factories import claim, membership, noise, policy, send
from tests.support.mortal import copy_store

PAGE = 8192
MESSAGES = 60

verifying = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


def unseen(*_):
    """No progress."""


async def filled(path, *, settled=True):
    """A store with messages of which some are leased; as a crash leaves it where it is not settled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(path, membership(), policy(queue_max=1_000), Clock())
    await store.open()
    broker = Broker(store, Clock())
    for n in range(MESSAGES):
        await broker.ask(send(to="@qa" if n % 3 else "product", payload={"n": n, "text": noise(n, 1_200)}))
    await broker.ask(claim("qa", 10))
    await broker.close()
    if not settled:
        copy_store(path, path.with_name("killed.db"))
    await store.close()


def files(path):
    """What stands in the files that are a store."""
    found = (path.with_name(path.name + suffix) for suffix in ("", "-wal", "-mark", "-witness"))
    return [file.read_bytes() if file.exists() else b"" for file in found]


async def test_a_store_that_is_whole(tmp_path):
    """Every page and every message is counted, and no byte changes."""
    path = tmp_path / "store.db"
    await filled(path)
    before, seen = files(path), {}

    def progress(what, done, total):
        seen[what] = done / total

    findings = await in_thread(lambda: check_everything(path, progress))
    assert (findings.faults, findings.messages, findings.pages) == ([], MESSAGES, path.stat().st_size // PAGE)
    assert seen["messages"] == 1.0
    assert files(path) == before


async def in_thread(work):
    """As a verb does it: with no loop around it."""
    return await asyncio.to_thread(work)


@verifying
async def test_a_flipped_bit_in_any_page_is_found(tmp_path, monkeypatch):
    """In every page and every byte of the header, and whatever the fault, the check ends with its words."""
    monkeypatch.setattr(page_file, "_PAUSE_SECONDS", 0)  # nobody is writing these pages
    path, harmed = tmp_path / "store.db", tmp_path / "harmed.db"
    await filled(path)
    rng = random.Random(3)
    offsets = [*range(100), *(start + rng.randrange(PAGE) for start in range(0, path.stat().st_size, PAGE))]
    for offset in offsets:
        copy_store(path, harmed)
        content = bytearray(harmed.read_bytes())
        content[offset] ^= 1 << rng.randrange(8)
        harmed.write_bytes(content)
        assert check_pages(harmed, unseen).faults, offset
        assert (await in_thread(lambda: check_everything(harmed, unseen))).faults, offset
        assert harmed.read_bytes() == content


@verifying
async def test_commits_that_the_log_lost_are_found(tmp_path):
    """The mark tells, and the log stays as it is."""
    path = tmp_path / "killed.db"
    await filled(tmp_path / "store.db", settled=False)
    assert (await in_thread(lambda: check_everything(path, unseen))).faults == []
    log = path.with_name("killed.db-wal")
    content = bytearray(log.read_bytes())
    content[32 + 24 + 100] ^= 1
    log.write_bytes(content)
    (fault,) = (await in_thread(lambda: check_everything(path, unseen))).faults
    assert "its log is right up to frame 0" in fault
    assert log.read_bytes() == content


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("DELETE FROM messages WHERE id = 4", "message 4, which waits for its receiver, has no row"),
        ("UPDATE deliveries SET state = 2; DELETE FROM messages WHERE id = 4", "message 4 has deliveries and no row"),
        ("UPDATE messages SET envelope = (SELECT envelope FROM messages WHERE id = 6) WHERE id = 5", "message 5 does"),
        ("UPDATE messages SET envelope = x'7b' WHERE id = 5", "message 5 does not hold the envelope of its place"),
    ],
)
async def test_rows_that_contradict_each_other_are_found(tmp_path, harm, words):
    """A perfect database is no good store yet."""
    path = tmp_path / "store.db"
    await filled(path)
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    for statement in harm.split("; "):
        await store._writer.run(lambda db, statement=statement: db.execute(statement))
    await store.close()
    faults = (await in_thread(lambda: check_everything(path, unseen))).faults
    assert any(words in fault for fault in faults), faults


@pytest.fixture
async def deployment(tmp_path):
    """The configuration of one that was made, with messages in its store."""
    config = tmp_path / "d" / "multiclaw.toml"
    assert CliRunner().invoke(build("init"), ["init", "--dir", str(config.parent)]).exit_code == 0
    await filled(load(config).adapter_store)
    return config


async def run_check(config, *options):
    """Status and output of the verb."""
    ended = await in_thread(lambda: CliRunner().invoke(build("check"), ["check", "--config", str(config), *options]))
    if isinstance(ended.exception, Exit):
        return ended.exception.status, ended.exception.words
    return ended.exit_code, ended.stdout


async def test_the_verb_checks_everything_or_beside_an_adapter_the_pages(deployment):
    """It says which; and ends with 0 for what is whole."""
    status, told = await run_check(deployment, "--json")
    document = json.loads(told)
    assert (status, document["whole"], document["checked"], document["messages"]) == (0, True, "everything", MESSAGES)
    lock = StoreLock(load(deployment).adapter_state)
    status, told = await run_check(deployment)
    lock.release()
    assert status == 0
    assert "the adapter runs, so only the pages" in told


async def test_the_verb_ends_with_1_for_damage(deployment):
    """A store that was taken away under its witness is one too; without a witness there is none."""
    path = load(deployment).adapter_store
    path.unlink()
    status, told = await run_check(deployment)
    assert status == 1
    assert f"number {MESSAGES} was seen in it" in told
    witness_path(path).unlink()
    status, words = await run_check(deployment)
    assert status == 1
    assert "there is no store at" in words


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error"),
        PermissionError(13, "Permission denied"),
        OSError(28, "No space left on device"),
        sqlite3.OperationalError("database is locked"),
    ],
)
async def test_what_may_pass_is_no_damage(deployment, monkeypatch, error):
    """Busy, EIO, EACCES, ENOSPC: it could not be checked, says the verb, and nothing more."""

    def fail(*_):
        raise error

    monkeypatch.setattr(full_check, "_rows", fail)
    monkeypatch.setattr("multiclaw.cli.check.SqliteError", sqlite3.Error)
    status, words = await run_check(deployment)
    assert status == UNAVAILABLE
    assert "that proves nothing" in words
