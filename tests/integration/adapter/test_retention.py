"""Retention on a real file: it shrinks, sends go on, and readers are told what is gone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapter.core.commands import Ack, Claim, Sent, Tick
from adapter.core.retention import Ages, RetentionPolicy
from adapter.store.engine import Store
from adapter.store.pruning import forget
from shared.times import MICROSECONDS
from tests.support.clock import SettableClock, us
from tests.support.factories import membership, noise, policy, send

DAY = 86_400.0
AGES = RetentionPolicy(Ages(us(30 * DAY), None), {}, check_us=us(60), agree_us=us(DAY))
TEXT = noise(0, 7_000)


class Kept:
    """A store on a file, and its clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = SettableClock()
        self.store = Store(path, membership(), policy(retention=AGES, queue_max=100_000), self.clock)

    async def send(self, count: int) -> None:
        """So many messages to one agent."""
        sends = [send(to="@qa", payload={"text": TEXT}) for _ in range(count)]
        outcomes = (await self.store.apply(list(sends))).outcomes
        assert all(isinstance(outcome, Sent) for outcome in outcomes)

    async def consume(self) -> None:
        """All that waits."""
        while handed := (await self.store.apply([Claim("qa", 100, 1, park=False)])).outcomes[0]:
            await self.store.apply([Ack("qa", tuple(one.delivery_id for one in handed), {})])

    async def run_pass(self) -> None:
        """Ticks as they are due, until the next pass is."""
        waited_us = us(60)
        while True:
            self.clock.advance(waited_us / MICROSECONDS)
            due_us = (await self.store.apply([Tick()])).next_due_us
            assert due_us is not None
            waited_us = due_us - self.clock.steady_us()
            if waited_us > us(1):
                return

    async def count(self, table: str) -> int:
        """Rows of a table."""
        return await self.store.read(lambda db, _: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]))  # noqa: S608

    async def size(self) -> int:
        """Bytes of the file once the log is in it."""
        assert self.store._writer is not None
        await self.store._writer.run(lambda db: db.execute("PRAGMA wal_checkpoint").fetchall())
        return self.path.stat().st_size


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    """An open store."""
    opened = Kept(tmp_path / "store.db")
    await opened.store.open()
    yield opened
    await opened.store.close()


async def test_the_file_shrinks(kept: Kept) -> None:
    """Space goes back to the file system, and what is young is moved and stays readable, keys included."""
    for _ in range(4):
        await kept.send(500)
    await kept.consume()
    kept.clock.advance(30 * DAY)
    fresh = send(to="@qa", payload={"text": TEXT})
    await kept.store.apply([fresh])
    before = await kept.size()
    assert before > 2_000 * 7_000
    await kept.run_pass()
    assert (await kept.count("messages"), await kept.count("deliveries")) == (1, 1)
    assert await kept.size() < before / 50
    assert (await kept.store.apply([fresh])).outcomes[0].duplicate
    integrity = await kept.store.read(lambda db, _: db.execute("PRAGMA integrity_check").fetchall())
    assert integrity == [("ok",)]


async def test_a_file_keeps_its_size_while_most_of_it_is_used(kept: Kept) -> None:
    """What pruning frees is used by what comes next: nothing is moved for it."""
    await kept.send(300)
    await kept.consume()
    kept.clock.advance(30 * DAY)
    for _ in range(4):
        await kept.send(500)
    before = await kept.size()
    await kept.run_pass()
    assert await kept.count("messages") == 2_000
    assert await kept.size() == before
    await kept.send(200)
    assert await kept.size() == before


async def test_what_was_held_leaves_nothing_behind(kept: Kept) -> None:
    """Old and not received: noted, and the note goes with the message."""
    await kept.send(3)
    kept.clock.advance(31 * DAY)
    await kept.run_pass()
    assert (await kept.count("messages"), await kept.count("held_messages")) == (3, 3)
    await kept.consume()
    await kept.run_pass()
    assert (await kept.count("messages"), await kept.count("held_messages")) == (0, 0)


async def test_a_failed_batch_is_taken_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group that it was part of is refused whole; the store opens again and prunes what is there."""
    await kept.send(10)
    await kept.consume()
    kept.clock.advance(31 * DAY)
    faults = [OSError("disk")]

    def failing(connection: Any, message_ids: Any) -> None:
        forget(connection, message_ids)
        if faults:
            raise faults.pop()

    monkeypatch.setattr("adapter.store.transaction.forget", failing)
    with pytest.raises(Exception, match="disk"):
        await kept.run_pass()
    await kept.store.mending.ended()
    assert await kept.count("messages") == 10
    await kept.run_pass()
    assert await kept.count("messages") == 0
