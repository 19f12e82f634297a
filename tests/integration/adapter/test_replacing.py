"""A crash at any moment of a replacement leaves the whole old store or the whole new one, which a start then serves."""

import contextlib
import os
import shutil

import pytest

from adapter.broker import Broker
from adapter.store import engine, replacing
from adapter.store.engine import Store
from adapter.store.full_check import check_everything
from adapter.store.replacing import finish_replacement, note_path, replace_store
from shared import durable_files
from shared.clock import Clock
from shared.config import ConfigurationFault
from shared.database import QUIET_STORE
from tests.support.factories import START_US, membership, policy, send
from tests.support.mortal import copy_store
from tests.support.store_hand import reading

OLD, NEW = 3, 5
ACTS = ("link", "unlink", "rename", "replace", "fsync", "mkdir", "rmdir")


class KilledError(BaseException):
    """The process is gone."""


class Kernel:
    """The calls of the `os` module that change a folder: the one with the number `fatal` and all later ones never
    happen. `fault`, where there is one, is raised once instead, and the process lives on."""

    def __init__(self, patch, fatal, fault=None):
        self.calls = []
        self._fatal, self._fault = fatal, fault
        for name in ACTS:
            patch.setattr(os, name, self._guarded(name, getattr(os, name)))

    def _guarded(self, name, act):
        def call(*args, **options):
            number = len(self.calls)
            self.calls.append(name)
            if self._fault is not None and number == self._fatal:
                raise self._fault
            if self._fault is None and number >= self._fatal:
                raise KilledError
            return act(*args, **options)

        return call


async def stored(path):
    """How many messages a start finds."""
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    count = store.committed()
    await store.close()
    with reading(path) as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (count,)
    return count


async def fill(path, count):
    """Send so many; the files are those of a crash, so most of it stands in the log."""
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    broker = Broker(store, Clock())
    for n in range(count):
        await broker.ask(send(payload={"n": n}))
    copy_store(path, path.with_name(f"crashed-{path.name}"))
    await broker.close()
    await store.close()


@pytest.fixture
async def pair(tmp_path, monkeypatch):
    """A store as a crash left it, with its witness, and a new file of another number of messages."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)  # a small log, which is copied often here
    work = tmp_path / "work"
    work.mkdir()
    await fill(work / "old.db", OLD)
    await fill(work / "new.db", NEW)

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        copy_store(work / "crashed-old.db", folder / "store.db")
        shutil.copyfile(work / "old.db-witness", folder / "store.db-witness")
        (folder / "new.db").write_bytes((work / "new.db").read_bytes())
        return folder / "store.db"

    return make


async def test_a_replacement(pair):
    """The new store serves, and every file of the old one is kept, byte by byte, in a dated folder."""
    path = pair("plain")
    before = {each.name: each.read_bytes() for each in path.parent.glob("store.db*")}
    kept = replace_store(path, path.with_name("new.db"), "repair", START_US)
    assert kept.parent == path.parent / "kept"
    assert kept.name.endswith("Z-repair")
    assert {each.name: each.read_bytes() for each in kept.iterdir()} == before
    assert [each.name for each in path.parent.glob("*.db*")] == ["store.db"]
    assert await stored(path) == NEW
    path.with_name("new.db").write_bytes(path.read_bytes())
    assert replace_store(path, path.with_name("new.db"), "repair", START_US).name == f"{kept.name}-2"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_what_root_replaces_belongs_to_the_owner_of_the_store(pair, monkeypatch):
    """So that the adapter, which has a user of its own, can open the store, keep more files beside these, and finish
    what was interrupted."""
    path, noted = pair("given"), []
    os.chown(path.parent, 12_345, 12_345)
    carry_out = replacing._carry_out

    def look_and_carry_out(store, step):
        noted.append(note_path(store).stat().st_uid)
        carry_out(store, step)

    monkeypatch.setattr(replacing, "_carry_out", look_and_carry_out)
    kept = replace_store(path, path.with_name("new.db"), "restore", START_US)
    owners = {each.stat().st_uid for each in (path, kept.parent, kept)}
    assert (owners, noted) == ({12_345}, [12_345])


async def test_a_crash_at_any_step(pair):
    """Before each call that changes a folder: a start then finds all old messages or all new ones, and no file of the
    other, and what is kept is what was there; new ones only from a moment on."""
    found, calls, fatal = [], 1, 0
    while fatal <= calls:
        path = pair(f"at-{fatal}")
        before = {each.name: each.read_bytes() for each in path.parent.glob("store.db*")}
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KilledError):
            kernel = Kernel(patch, fatal)
            replace_store(path, path.with_name("new.db"), "repair", START_US)
        calls, fatal = len(kernel.calls), fatal + 1
        kept = finish_replacement(path)
        assert not note_path(path).exists()
        if kept is not None or not path.with_name("new.db").exists():
            (folder,) = (path.parent / "kept").iterdir()
            assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
        found.append(await stored(path))
    assert found == sorted(found)
    assert set(found) == {OLD, NEW}
    assert calls > 12


async def test_a_crash_while_a_start_finishes_it(pair):
    """The next start finishes it all the same."""
    calls, fatal = 1, 0
    while fatal <= calls:
        path = pair(f"at-{fatal}")
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KilledError):
            Kernel(patch, 9)
            replace_store(path, path.with_name("new.db"), "repair", START_US)
        assert note_path(path).exists()
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KilledError):
            kernel = Kernel(patch, fatal)
            finish_replacement(path)
        calls, fatal = len(kernel.calls), fatal + 1
        assert await stored(path) == NEW
    assert calls > 3


async def test_where_the_new_file_is_gone_all_is_undone(pair):
    """Killed at any step before the new file is in place, and the new file taken away: the old store serves, whole."""
    fatal, undone = 0, 0
    while True:
        path = pair(f"at-{fatal}")
        before = {each.name: each.read_bytes() for each in path.parent.glob("store.db*")}
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KilledError):
            Kernel(patch, fatal)
            replace_store(path, path.with_name("new.db"), "repair", START_US)
        if not path.with_name("new.db").exists():
            break
        path.with_name("new.db").unlink()
        undone += note_path(path).exists()
        assert finish_replacement(path) is None
        path.with_name("store.db-replacing.new").unlink(missing_ok=True)
        assert {each.name: each.read_bytes() for each in path.parent.glob("store.db*")} == before
        assert list((path.parent / "kept").glob("*")) == []
        assert await stored(path) == OLD
        fatal += 1
    assert undone > 8


async def test_an_error_of_the_disk_undoes_it(pair):
    """Whichever call fails (a file system without hard links, a full disk): the error, and either store, whole."""
    path, outcomes = pair("plain"), set()
    with pytest.MonkeyPatch.context() as patch:
        kernel = Kernel(patch, 10_000)
        replace_store(path, path.with_name("new.db"), "repair", START_US)
    for number in range(len(kernel.calls)):
        path = pair(f"at-{number}")
        with pytest.MonkeyPatch.context() as patch:
            Kernel(patch, number, OSError(95, "Operation not supported"))
            with pytest.raises(OSError, match="not supported"):
                replace_store(path, path.with_name("new.db"), "repair", START_US)
        outcomes.add((path.with_name("new.db").exists(), await stored(path)))
        assert not note_path(path).exists()
    assert outcomes == {(True, OLD), (False, NEW)}


def test_names_are_safe_before_others_go(pair, monkeypatch):
    """What a power cut needs: the second names are synced before an old one goes, the old ones before the new file
    comes, and that before the note goes."""
    path = pair("order")
    kernel = Kernel(monkeypatch, 10_000)
    replace_store(path, path.with_name("new.db"), "restore", START_US)
    told = " ".join(kernel.calls)
    steps = "fsync replace fsync mkdir", "link fsync fsync fsync unlink", "unlink fsync replace fsync unlink fsync"
    assert all(step in told for step in steps), told
    assert told.endswith(steps[-1])


async def test_a_store_that_is_gone_can_be_replaced(pair):
    """There is nothing to keep but what lay beside it."""
    path = pair("gone")
    path.unlink()
    kept = replace_store(path, path.with_name("new.db"), "restore", START_US)
    assert "store.db" not in {each.name for each in kept.iterdir()}
    assert await stored(path) == NEW


@pytest.mark.parametrize(
    "note", ["", "[]", "{}", '{"new":"../x","kept":"kept/a","files":[],"why":"a","at":""}',
             '{"new":"x","kept":"kept/../..","files":[],"why":"a","at":""}',
             '{"new":"x","kept":"kept/a","files":["/etc/passwd"],"why":"a","at":""}'],
)  # fmt: skip
async def test_a_note_of_somebody_else_is_refused(pair, note):
    """A start does nothing then, and says what to look at; `check` says so too."""
    path = pair("foreign")
    note_path(path).write_text(note)
    with pytest.raises(ConfigurationFault, match="remove the note"):
        await stored(path)
    assert check_everything(path, lambda *_: None).faults == [
        "it is being replaced, and that was interrupted; start the adapter, which finishes it"
    ]
    note_path(path).unlink()
    assert await stored(path) == OLD


def test_only_a_file_beside_the_store_is_taken(tmp_path):
    """A rename from elsewhere may be a copy, and a copy may be half there."""
    for new, why in ((tmp_path / "x" / "new.db", "repair"), (tmp_path / "new.db", "../up")):
        with pytest.raises(ValueError, match="beside"):
            replace_store(tmp_path / "store.db", new, why, START_US)
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """A write that fails leaves the file of before, and nothing beside it."""
    path = tmp_path / "note"
    durable_files.write_durably(path, b"first")
    Kernel(monkeypatch, 0, OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        durable_files.write_durably(path, b"second")
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["note"]
