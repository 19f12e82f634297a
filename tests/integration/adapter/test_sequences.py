"""Numbers of a channel are contiguous and never used again: over pruning, failing inserts and restarts, on SQLite.

Readers take a hole for a lost message, and a number that comes twice for one they have seen (nats-server#3006).
"""

import contextlib

import pytest

from adapter.store.engine import Store
from shared.database.damage import Damage
from shared.problems import Problem
from tests.support.clock import SettableClock
from tests.support.deployment import until
from tests.support.factories import membership, policy, send
from tests.support.store_hand import looking_at


@contextlib.asynccontextmanager
async def opened(path):
    """A store at `path`, open for a block."""
    store = Store(path, membership(), policy(), SettableClock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def sequences(store, *sends):
    """Where these sends of one group went."""
    return [sent.sequence for sent in (await store.apply(list(sends))).outcomes]


def prune(path):
    """Everything that was ever sent is gone from the store, as after its retention."""
    with looking_at(path) as db:
        for table in ("messages", "deliveries", "dead_letters"):
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours


async def test_what_was_pruned_is_counted_on(tmp_path):
    """Ten messages, all pruned, a restart: the next one is the eleventh, in its channel and as a message."""
    path = tmp_path / "store.db"
    async with opened(path) as store:
        assert await sequences(store, *(send() for _ in range(10))) == list(range(1, 11))
    prune(path)
    async with opened(path) as store:
        assert await sequences(store, send(), send(to="@qa")) == [11, 1]
    with looking_at(path) as db:
        assert db.execute("SELECT id, sequence FROM messages ORDER BY id").fetchall() == [(11, 11), (12, 1)]


@pytest.mark.parametrize("table", ["messages", "deliveries", "channels"])
async def test_a_failed_insert_leaves_no_hole(tmp_path, table):
    """Whichever statement of a send fails, its whole group has taken no number: 12, then 13, also after a restart."""
    path = tmp_path / "store.db"
    event = "UPDATE" if table == "channels" else "INSERT"
    async with opened(path) as store:
        assert (await sequences(store, *(send() for _ in range(12))))[-1] == 12
        await store._writer.run(
            lambda db: db.execute(
                f"CREATE TEMP TRIGGER fault BEFORE {event} ON main.{table} BEGIN SELECT RAISE(ABORT, 'fault'); END"
            )
        )
        refused = send()
        with pytest.raises(Problem, match="store-unavailable"):
            await store.apply([refused, send()])
        await until(lambda: store.fault is None, "the store is open again")
        assert await sequences(store, refused) == [13]
    async with opened(path) as store:
        assert await sequences(store, refused, send()) == [13, 14]


async def test_a_counter_that_was_set_back_is_found(tmp_path):
    """Were it to count on, numbers would be given twice: the store is refused at its opening, and stays as it is."""
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await sequences(store, *(send() for _ in range(3)))
    with looking_at(path) as db:
        db.execute("UPDATE channels SET last_sequence = 1")
        kept = db.execute("SELECT sequence, envelope FROM messages ORDER BY sequence").fetchall()
    refused = Store(path, membership(), policy(), SettableClock())
    with pytest.raises(Damage, match="holds sequence 3 and has counted 1"):
        await refused.open()
    await refused.close()
    with looking_at(path) as db:
        assert db.execute("SELECT sequence, envelope FROM messages ORDER BY sequence").fetchall() == kept
