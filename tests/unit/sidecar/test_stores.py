"""What the sidecar's store promises of itself and of processed messages, on real SQLite."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite.core
import pytest

from shared.database import Damage
from shared.problems import Problem
from shared.service_manager import Standing
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


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store in a fresh folder."""
    async with open_store(tmp_path / "sidecar.db") as opened:
        yield opened


def _processed(key: MessageKey, result: bytes | None = None) -> Processed:
    return Processed(key, f"d-{key.idempotency_key}", result)


async def test_the_files_of_a_damaged_store_are_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log is looked at while it is well; once a page was wrong, nothing is moved from it into the file."""
    looks: list[Path] = []
    monkeypatch.setattr("sidecar.store.store.STUCK_BYTES_MAX", 1)
    monkeypatch.setattr("sidecar.store.store._LOG_LOOK_US", 0)
    monkeypatch.setattr("sidecar.store.store.stuck_bytes", lambda _, path: looks.append(path) or 0)
    await store.look_at_log()
    assert len(looks) == 1

    def find_damage(_: object) -> None:
        raise Damage("a wrong page")

    with pytest.raises(Problem, match="damaged"):
        await store.read(find_damage)
    await store.look_at_log()
    assert len(looks) == 1


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


async def test_a_store_whose_thread_has_ended_opens_itself_again(store: Store) -> None:
    """What waits is refused and may try again; then what was committed is there, and more can be."""
    first, second = (Processed(MessageKey("pm", key), "d", None) for key in "ab")
    await store.commit(remember([first], 1))
    store._database._tx.put_nowait((None, lambda: aiosqlite.core._STOP_RUNNING_SENTINEL))
    async with asyncio.timeout(10):
        with pytest.raises(Problem, match="store-unavailable"):
            await store.commit(remember([second], 2))
        await store.commit(remember([second], 2))
    assert store.fault is None
    assert await store.standing() == Standing()
    assert set(await recall(store, [first.key, second.key])) == {first.key, second.key}
