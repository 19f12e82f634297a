"""Killed before any statement of an approval, a deployment is afterwards of one version or the other, never of both."""

import contextlib

import pytest

from adapter.core.commands import DecideTopology, NoteWritten, ProposeTopology
from adapter.store import engine
from adapter.store.engine import Store
from shared.database import QUIET_STORE
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.topology import TopologyChange
from tests.support.clock import SettableClock
from tests.support.factories import claim, membership, policy, send
from tests.support.mortal import copy_store, make_mortal
from tests.support.store_hand import reading

CHANGE = TopologyChange.model_validate(
    {
        "agents": {"add": {"ops": {}}, "remove": ["qa"]},
        "channels": {"add": {"new": {"members": ["ops"]}}, "change": {"product": {"add": ["ops"]}}},
    }
)
APPROVE = DecideTopology(2, True, GOVERNOR, None)


@contextlib.asynccontextmanager
async def opened(path):
    """The store, open for a block, and who it says the members are."""
    store = Store(path, membership(), policy(), SettableClock())
    told = []
    store.on_topology = lambda topology, _: told.append(topology)
    await store.open()
    try:
        yield store, told
    finally:
        await store.close()


def shown(path):
    """What the disk holds, read by another hand than the store's own."""
    with reading(path) as db:
        return {
            "versions": db.execute("SELECT version, standing FROM topologies ORDER BY version").fetchall(),
            "agents": {name for (name,) in db.execute("SELECT name FROM agents")},
            "channels": {name for (name,) in db.execute("SELECT name FROM channels")},
            "states": db.execute("SELECT message_id, recipient_id, state FROM deliveries ORDER BY 1, 2").fetchall(),
            "letters": db.execute("SELECT message_id, recipient_id, reason FROM dead_letters ORDER BY 1").fetchall(),
        }


@pytest.fixture
async def kept(tmp_path, monkeypatch):
    """A store in which a change is proposed, with messages that wait for, and are held by, who is to be removed."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)  # a small log, which is copied often here
    path = tmp_path / "kept.db"
    async with opened(path) as (store, _):
        await store.apply([send(to="product"), send(to="@qa", task_id="t"), claim("qa", 1)])
        await store.apply([ProposeTopology("orchestrator", CHANGE, "because")])
    return path


async def test_a_kill_at_any_statement_leaves_one_of_two_versions(kept, tmp_path):
    """What was before the approval, or what is after it; approving again brings either to the same end."""
    path, left = tmp_path / "store.db", tmp_path / "left.db"
    first, found, ends, statements, fatal = shown(kept), [], [], 0, -1
    while fatal < statements:
        fatal += 1
        copy_store(kept, path)
        async with opened(path) as (store, told):
            mortal = make_mortal(store, path, left, fatal)
            with contextlib.suppress(Problem):
                await store.apply([APPROVE])
            statements = len(mortal.statements) + mortal.is_dead
            assert [topology.version for topology in told] == ([1] if mortal.is_dead else [1, 2])
            if not mortal.is_dead:
                copy_store(path, left)
        found.append(shown(left))
        async with opened(left) as (store, told):
            assert [topology.version for topology in told] == [1 if found[-1] == first else 2]
            assert set(store.depths()) == set(told[0].roles)
            await store.apply([APPROVE])
            assert told[-1].version == 2
        ends.append(shown(left))
    assert statements > 8
    assert found[-1] != first
    assert found == [first] * (len(found) - 2) + found[-1:] * 2  # killed between commit and log mark; not killed
    assert ends == [found[-1]] * len(ends)


async def test_a_commit_that_fails_leaves_the_old_members_in_force(kept):
    """In memory as on the disk: the store opens again, tells the old version, and takes the approval asked anew."""
    async with opened(kept) as (store, told):
        make_mortal(store, kept, kept.with_name("elsewhere.db"), 6)
        with pytest.raises(Problem, match="store-unavailable"):
            await store.apply([APPROVE])
        await store.mending.ended()
        assert [topology.version for topology in told] == [1, 1]
        assert "qa" in store.depths()
        await store.apply([APPROVE])
        assert told[-1].version == 2
        assert ("qa" in store.depths(), "ops" in store.depths()) == (False, True)


async def test_a_store_that_opens_again_knows_better_than_the_file_it_was_started_with(kept):
    """The file is read once: what was approved and written since is no edit to be undone."""
    async with opened(kept) as (store, told):
        await store.apply([APPROVE, NoteWritten(2)])
        make_mortal(store, kept, kept.with_name("elsewhere.db"), 1)
        with pytest.raises(Problem, match="store-unavailable"):
            await store.apply([send("ops", to="new")])
        await store.mending.ended()
        assert [topology.version for topology in told] == [1, 2, 2]
        (sent,) = (await store.apply([send("ops", to="new")])).outcomes
        assert sent.sequence == 1
