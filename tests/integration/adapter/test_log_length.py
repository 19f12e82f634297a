"""The store's log: readers of ours do not lengthen it, others are told of, and so is the end of it."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapter import log_watch
from adapter.app import adapter
from adapter.broker import Broker
from adapter.store import engine, log_length, snapshot
from adapter.store.engine import Store
from shared import link as paths
from shared.clock import Clock
from shared.database import Damage, Tuning, log_bytes, stuck_bytes, write_backup
from shared.database.library import LIBRARY
from shared.names import GOVERNOR
from shared.problems import Problem
from tests.integration.adapter.conftest import Link
from tests.support.deployment import health, until
from tests.support.factories import membership, noise, policy, send
from tests.support.store_hand import reading

MEBIBYTE = 1024 * 1024
TEXT = {"text": noise(0, 50_000)}
FOR_EVER = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
async def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A store whose log is emptied at one mebibyte."""
    monkeypatch.setattr(engine, "BUSY_STORE", Tuning(wal_bytes=MEBIBYTE, cache_bytes=MEBIBYTE))
    store = Store(tmp_path / "store.db", membership(), policy(queue_max=1_000), Clock())
    await store.open()
    yield store
    await store.close()


async def test_a_reading_that_takes_too_long_is_ended(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with what to do, its snapshot is gone, and the next one works."""
    monkeypatch.setattr(snapshot, "SNAPSHOT_SECONDS_MAX", 0.2)
    begun = time.monotonic()
    with pytest.raises(Problem, match="Ask for less") as refused:
        await small.read(lambda connection, _: connection.execute(FOR_EVER).fetchone())
    assert (refused.value.kind, time.monotonic() - begun < 10) == ("store-unavailable", True)
    assert small.fault is None
    assert await small.read(lambda connection, _: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_our_own_readers_do_not_lengthen_it(small: Store, tmp_path: Path) -> None:
    """Readings without a pause and a backup, beside sends that fill the log twenty times: it stays what it was."""
    broker, lengths, ended = Broker(small, Clock()), [], asyncio.Event()

    async def read_on() -> None:
        while not ended.is_set():
            await small.read(lambda connection, _: connection.execute("SELECT count(*) FROM messages").fetchone())

    reading_on = [asyncio.create_task(read_on()) for _ in range(3)]
    copying = asyncio.create_task(small.copying.copy(partial(_back_up, tmp_path / "copy.db")))
    for _ in range(400):
        await broker.ask(send(to="@qa", payload=TEXT))
        lengths.append(small.log.bytes)
    ended.set()
    await asyncio.gather(copying, *reading_on)
    assert max(lengths) <= 2 * MEBIBYTE
    await broker.close()


def _back_up(target: Path, connection: Any, rest: Callable[[float], None]) -> None:
    write_backup(connection, target, rest)


async def test_a_reader_that_stays_is_told_and_so_is_its_end(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection keeps a snapshot: `/health`, `/metrics` and the Governor's inbox say so, once, while sends go
    on; when it has ended the log is emptied, and that is told, once."""
    monkeypatch.setattr(log_length, "STUCK_BYTES_MAX", MEBIBYTE)
    monkeypatch.setattr(log_length, "STUCK_BYTES_ENDS", MEBIBYTE // 2)
    monkeypatch.setattr(log_watch, "_LOOK_SECONDS", 0.02)
    async with Link(short_folder) as link, adapter(link.config):
        pm, governor = await link.client("pm"), await link.client(GOVERNOR)
        await pm.send("@qa", payload=TEXT)
        with reading(link.config.adapter_store) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM messages").fetchone()
            for _ in range(30):
                assert (await pm.send("@qa", payload=TEXT))["code"] == 201
            await until(lambda: _warned(link), "a human is warned")
            stuck = (await health(link.config.adapter_socket))[1]["log"]["stuck_bytes"]
            figures = str((await pm.call("GET", "/metrics")).document)
            found = re.search(r"^multiclaw_store_log_stuck_bytes (\S+)$", figures, re.MULTILINE)
            assert found
            assert float(found[1]) >= stuck >= MEBIBYTE
        await until(lambda: _is_short(link), "the log is emptied")
        await until(lambda: _told_twice(governor), "its end is told")
        assert await _reasons(governor) == [log_watch._STUCK, log_watch._OVER]


async def test_the_files_of_a_damaged_store_are_left_alone(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment that there is proof, no look moves anything from the log into the file."""
    looks: list[Path] = []
    monkeypatch.setattr(log_length, "STUCK_BYTES_MAX", 1)
    monkeypatch.setattr(log_length, "stuck_bytes", lambda _, path: looks.append(path) or 0)
    await small.log.look()
    assert len(looks) == 1
    small.integrity.on_damage(Damage("a wrong page"))
    await small.log.look()
    assert len(looks) == 1


async def _warned(link: Link) -> bool:
    return any("its log holds" in words for words in (await health(link.config.adapter_socket))[1]["warnings"])


async def _is_short(link: Link) -> bool:
    told = (await health(link.config.adapter_socket))[1]
    return told["log"]["stuck_bytes"] == 0 and not await _warned(link)


async def _reasons(governor: Any) -> list[str]:
    page = (await governor.call("GET", paths.INBOX_PATH)).document
    return [message["envelope"]["payload"]["reason"] for message in page["messages"]]


async def _told_twice(governor: Any) -> bool:
    return len(await _reasons(governor)) == 2


def test_a_checkpoint_that_fails_leaves_all_of_it(tmp_path: Path) -> None:
    """Where the disk does not take it, everything counts as stuck; where it does, nothing."""
    path = tmp_path / "store.db"
    connection = LIBRARY.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE item (n)")
    connection.set_authorizer(lambda _, name, *__: LIBRARY.SQLITE_DENY if name == "wal_checkpoint" else 0)
    assert stuck_bytes(connection, path) == log_bytes(path) > 0
    connection.set_authorizer(None)
    assert stuck_bytes(connection, path) == 0
    connection.close()
    assert log_bytes(tmp_path / "none.db") == 0
