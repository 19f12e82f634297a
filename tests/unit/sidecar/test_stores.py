"""What the sidecar's store promises, on real SQLite."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.clock import Clock
from shared.service_manager import Standing
from sidecar.core.drafts import Draft
from sidecar.store.outbox import Outbox, older_than
from sidecar.store.processed import (
    MessageKey,
    Processed,
    of_hand_overs,
    recall,
    remember,
    stand,
    take_back,
)
from sidecar.store.store import Store, open_store
from tests.support.clock import SettableClock, us


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store in a fresh folder."""
    async with open_store(tmp_path / "sidecar.db") as opened:
        yield opened


def _draft(number: int) -> Draft:
    return Draft(str(number), {"to": "product", "payload": number}, b'{"payload":%d}' % number)


async def test_the_outbox_is_occupied_from_the_first_moment(store: Store) -> None:
    """A send that is on its way in counts before it is committed, even when its caller has gone."""
    outbox = Outbox(store, Clock(), 10, 14)
    outbox.add(_draft(1)).cancel()
    assert outbox.occupied
    await store.settled()
    entries = await outbox.head()
    assert [entry.draft.key for entry in entries] == ["1"]
    assert outbox.depth == 1
    await outbox.settle(entries, [])
    assert not outbox.occupied


async def test_depth_is_exact_across_settling_and_reloading(store: Store) -> None:
    """Additions that commit while others are settled are counted, and a new process counts the same."""
    outbox = Outbox(store, Clock(), 1_000, 14)
    for number in range(50):
        await outbox.add(_draft(number))
    entries = await outbox.head()
    waiting = [outbox.add(_draft(number)) for number in range(50, 60)]
    await outbox.settle(entries[:40], [(entries[40], {"type": "expired"})])
    assert [(await future).code for future in waiting] == [202] * 10
    assert (outbox.depth, outbox.dead) == (19, 1)
    again = Outbox(store, Clock(), 1_000, 14)
    await again.load()
    assert (again.depth, again.dead) == (19, 1)
    assert [entry.draft.key for entry in await again.head()] == [str(number) for number in range(41, 60)]


def _processed(key: MessageKey, result: bytes | None = None) -> Processed:
    return Processed(key, f"d-{key.idempotency_key}", result)


async def test_what_has_waited_too_long_is_overdue(store: Store) -> None:
    """More than the days it may; which of those are too old to send is the adapter's to say, give or take an hour."""
    clock = SettableClock()
    outbox = Outbox(store, clock, 10, 14)
    await outbox.add(_draft(1))
    clock.advance(3_600)
    await outbox.add(_draft(2))
    entries = await outbox.head()
    assert outbox.overdue(entries) == []
    clock.advance(14 * 86_400 - 3_599)
    assert outbox.overdue(entries) == entries[:1]
    clock.step_wall(40 * 86_400)
    assert outbox.overdue(entries) == entries
    first_us, second_us = (entry.queued_at_us for entry in entries)
    assert older_than(entries, first_us - us(3_600)) == []
    assert older_than(entries, second_us - us(3_600)) == entries[:1]
    assert older_than(entries, second_us) == entries


async def test_what_was_set_aside_is_bounded_and_the_oldest_leaves_aloud(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads the log has the whole message and why it was refused; the newest stay."""
    monkeypatch.setattr("sidecar.store.outbox.DEAD_MAX", 2)
    clock = SettableClock()
    outbox = Outbox(store, clock, 10, 14)
    for number in range(4):
        await outbox.add(_draft(number))
    for entry in await outbox.head():
        clock.advance(1)
        await outbox.settle([], [(entry, {"type": f"refusal-{entry.id}"})])
    assert (outbox.depth, outbox.dead) == (0, 2)
    dropped = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert dropped == [f'outbox-dead-dropped: {n}: {{"type":"refusal-{n + 1}"}}: {{"payload":{n}}}' for n in (0, 1)]
    kept = await store.read(lambda c: c.execute("SELECT idempotency_key FROM outbox_dead ORDER BY 1").fetchall())
    assert kept == [("2",), ("3",)]


async def test_the_first_result_stays(store: Store) -> None:
    """A message processed twice keeps the result it was first acknowledged with."""
    key = MessageKey("pm", "k")
    await store.commit(remember([_processed(key, b"1")], 1))
    await store.commit(remember([_processed(key, b"2")], 2))
    assert await recall(store, [key, MessageKey("qa", "k")]) == {key: b"1"}


async def test_a_record_is_found_by_its_hand_over(store: Store) -> None:
    """So that a process which did not hand it out knows what its acknowledgement is about."""
    keys = [MessageKey("pm", "a"), MessageKey("pm", "b")]
    await store.commit(remember([_processed(key) for key in keys], 1))
    assert await of_hand_overs(store, ["d-b", "d-c"]) == {"d-b": keys[1]}


async def test_a_record_that_stands_is_not_taken_back(store: Store) -> None:
    """What was promised on the strength of it holds; a record of which nothing was promised goes."""
    stands, goes, never = (MessageKey("pm", name) for name in ("stands", "goes", "never"))
    await store.commit(remember([_processed(stands, b"1"), _processed(goes)], 1))
    assert await store.commit(stand([stands, never])) == {stands: b"1"}
    refused = {"d-stands": stands, "d-goes": goes, "d-never": never}
    assert await store.commit(take_back(refused)) == {"d-stands"}
    assert await recall(store, [stands, goes, never]) == {stands: b"1"}


async def test_a_store_that_hangs_is_stuck_and_one_that_fails_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd is told of the difference: a restart helps the first, and only waiting helps the second."""
    assert await store.standing() == Standing()
    await store.read(lambda connection: connection.execute("ALTER TABLE seen RENAME TO hidden"))
    failed = await store.standing()
    assert not failed.stuck
    assert "no such table" in (failed.reason or "")
    gate = threading.Event()
    hanging = asyncio.ensure_future(store.read(lambda _: gate.wait(20)))
    await asyncio.sleep(0)  # it is ahead of the next question
    monkeypatch.setattr("sidecar.store.store._PATIENCE_SECONDS", 0.05)
    assert (await store.standing()).stuck
    gate.set()
    assert await hanging
