"""What a sidecar forgets, and what it must not, on a real store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.link import OPEN_PATH
from shared.problems import Problem
from sidecar.core.link_outcome import LinkAnswer, Verdict
from sidecar.forgetter import Forgetter
from sidecar.store.processed import MEMORY_SECONDS, MessageKey, Processed, recall, remember
from sidecar.store.store import Store, open_store
from tests.support.clock import SettableClock

DAY = 86_400.0


class Adapter:
    """Says which messages are open, in pages of one, or nothing at all."""

    def __init__(self) -> None:
        self.open: list[MessageKey] = []
        self.away = False
        self.asked: list[str] = []
        self.passes = asyncio.Semaphore(0)

    async def call(self, method: str, target: str) -> LinkAnswer:
        """As the link does."""
        self.asked.append(f"{method} {target}")
        self.passes.release()
        if self.away:
            return LinkAnswer(Verdict.UNREACHABLE)
        after = int(target.partition("?after=")[2])
        page = [key._asdict() for key in self.open[after : after + 1]]
        return LinkAnswer(Verdict.ACCEPTED, 200, {"messages": page, "next": after + 1 if page else None})


class Memory:
    """A store, what may be asked of the adapter, and a clock."""

    def __init__(self, store: Store) -> None:
        self.store, self.adapter, self.clock = store, Adapter(), SettableClock()
        self.forgetter = Forgetter(store, self.adapter, self.clock)  # type: ignore[arg-type]

    async def processed(self, *names: str) -> list[MessageKey]:
        """The agent has processed these."""
        keys = [MessageKey("pm", name) for name in names]
        records = [Processed(key, f"d-{key.idempotency_key}", None) for key in keys]
        await self.store.commit(remember(records, self.clock.wall_us()))
        return keys

    async def known(self, *names: str) -> list[str]:
        """Those of them that would be absorbed."""
        found = await recall(self.store, [MessageKey("pm", name) for name in names])
        return [key.idempotency_key for key in found]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    """A store in a fresh folder."""
    async with open_store(tmp_path / "sidecar.db") as opened:
        yield Memory(opened)


async def test_what_is_old_is_forgotten_but_not_what_may_come_again(memory: Memory) -> None:
    """However old it is, and whatever case its sender wrote the key in: an ack may have waited for months."""
    old = await memory.processed("old", "WAITS", "dead", "older")
    memory.adapter.open = [MessageKey("pm", "waits"), MessageKey("pm", "dead"), MessageKey("qa", "old")]
    memory.clock.advance(MEMORY_SECONDS + 1)
    await memory.processed("fresh")
    await memory.forgetter.forget()
    assert await memory.known("fresh", *(key.idempotency_key for key in old)) == ["fresh", "WAITS", "dead"]
    memory.adapter.open = []
    await memory.forgetter.forget()
    assert await memory.known("fresh", "WAITS", "dead") == ["fresh"]
    assert memory.adapter.asked[0] == f"GET {OPEN_PATH}?after=0"


async def test_nothing_is_forgotten_while_the_adapter_is_away(memory: Memory) -> None:
    """Nobody else knows what may come again; and it is not asked while nothing is old."""
    await memory.processed("old")
    await memory.forgetter.forget()
    assert memory.adapter.asked == []
    memory.clock.advance(MEMORY_SECONDS + 1)
    await memory.processed("fresh")
    memory.adapter.away = True
    with pytest.raises(Problem, match="cannot be reached"):
        await memory.forgetter.forget()
    assert await memory.known("old", "fresh") == ["old", "fresh"]


async def test_age_counts_back_from_the_newest_record(memory: Memory) -> None:
    """A clock that leaps forward makes nothing old by itself; many records go in several steps."""
    names = [f"old-{number}" for number in range(2_500)]
    await memory.processed(*names)
    memory.clock.step_wall(400 * DAY)
    await memory.forgetter.forget()
    assert len(await memory.known(*names)) == 2_500
    await memory.processed("fresh")
    await memory.forgetter.forget()
    assert await memory.known("fresh", *names) == ["fresh"]


async def test_a_sidecar_that_runs_for_months_forgets_too(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after the start, also after a pass that failed."""
    monkeypatch.setattr("sidecar.forgetter._PAUSE_SECONDS", 0.01)
    await memory.processed("old")
    memory.clock.advance(MEMORY_SECONDS + 1)
    await memory.processed("fresh")
    memory.adapter.away = True
    running = asyncio.ensure_future(memory.forgetter.run())
    async with asyncio.timeout(10):
        await memory.adapter.passes.acquire()
        memory.adapter.away = False
        while True:
            if not await memory.known("old"):
                break
            await asyncio.sleep(0.01)
    running.cancel()
    assert await memory.known("old", "fresh") == ["fresh"]


async def test_the_file_shrinks(memory: Memory, tmp_path: Path) -> None:
    """What was large once, a full outbox or many results, does not stay so."""
    key = MessageKey("pm", "large")

    def fill(connection: Any) -> None:
        rows = [("pm", f"k{number}", "d", bytes(16_000), memory.clock.wall_us()) for number in range(1_000)]
        sql = "INSERT INTO processed (sender, idempotency_key, delivery_id, result, processed_at_us) VALUES (?,?,?,?,?)"
        connection.executemany(sql, rows)

    def size() -> int:
        return (tmp_path / "sidecar.db").stat().st_size

    async def checkpoint() -> None:
        await memory.store.read(lambda connection: connection.execute("PRAGMA wal_checkpoint").fetchall())

    await memory.store.commit(fill)
    await checkpoint()
    before = size()
    memory.clock.advance(MEMORY_SECONDS + 1)
    await memory.store.commit(remember([Processed(key, "d", None)], memory.clock.wall_us()))
    await memory.forgetter.forget()
    await checkpoint()
    assert before > 16_000_000
    assert size() < before / 20
    assert await recall(memory.store, [key]) == {key: None}
