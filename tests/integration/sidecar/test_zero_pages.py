"""A page of zeros, which has the checksum of zeros, anywhere in a sidecar's store: it is refused as it stands, or what
is served is right."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shared.clock import Clock
from shared.config import ConfigurationFault
from shared.database import library_checksums
from shared.problems import Problem
from shared.strict_json import encode
from sidecar.core.drafts import Draft
from sidecar.core.outbox_bounds import OutboxBounds
from sidecar.store.deferred_acks import DeferredAcks
from sidecar.store.lost_pages import LostPages
from sidecar.store.outbox import Outbox
from sidecar.store.outbox_views import one, refused_page, waiting_page
from sidecar.store.processed import MEMORY_SECONDS, MessageKey, Processed, old_records, recall, remember
from sidecar.store.store import Store, open_store
from tests.integration.sidecar.harness import Deployment, key
from tests.support.clock import us
from tests.support.mortal import copy_store

PAGE = 8192
FRAME, LOG_HEADER = PAGE + 24, 32
SIZES = (10, 700, 3_000, 9_000, 20_000, 40_000)
MESSAGES = 18

pytestmark = [
    pytest.mark.skipif(library_checksums() != "on", reason=library_checksums()),
    pytest.mark.timeout(300),
]


def _outbox(store: Store) -> Outbox:
    return Outbox(store, Clock(), OutboxBounds(1_000, 0, us(14 * 86_400), 1_000), lambda _: False)


async def _fill(store: Store) -> None:
    """Sends that wait, sends that were refused, what was processed, old and new, and acks that are deferred: rows of
    each on one page and over several."""
    outbox, deferred = _outbox(store), DeferredAcks(store)
    now_us = Clock().wall_us()
    for n in range(MESSAGES):
        size = SIZES[n % len(SIZES)]
        envelope = {"to": "@qa", "type": "note/1", "payload": "p" * size, "idempotency_key": key(n)}
        await outbox.add(Draft(key(n), envelope, encode(envelope)))
        at_us = now_us - us(2 * MEMORY_SECONDS) if n % 2 else now_us
        await store.commit(remember([Processed(MessageKey("pm", key(n)), f"d{n}", encode("r" * size))], at_us))
        await deferred.add({f"d{n}": encode("a" * size)})
    async with outbox.taken(len(SIZES)) as entries:
        await outbox.settle([], [(entry, {"type": "contract-violation", "detail": "No."}) for entry in entries])


async def _questions(store: Store) -> list[Any]:
    """Everything that the sidecar can be asked for, each answer by itself, `None` where it is refused."""
    outbox = _outbox(store)

    async def head() -> Any:
        async with outbox.taken(100) as entries:
            return [(entry.draft, entry.queued_at_us) for entry in entries]

    async def levels() -> Any:
        await outbox.load()
        return outbox.depth, outbox.dead, outbox.oldest_us

    keys = [MessageKey("pm", key(n)) for n in range(MESSAGES)]
    asked = [head(), levels(), DeferredAcks(store).head(), old_records(store, Clock().wall_us())]
    asked += [waiting_page(store, 0, 100), refused_page(store, 0, 100)]
    asked += [one(store, each.idempotency_key) for each in keys] + [recall(store, [each]) for each in keys]
    answers: list[Any] = []
    for question in asked:
        try:
            answers.append(await question)
        except Problem:
            answers.append(None)
    return answers


@pytest.fixture
async def pristine(tmp_path: Path) -> Path:
    """The path of a store that was closed in peace; `killed.db` beside it is the same with all of it in the log."""
    path = tmp_path / "pristine.db"
    async with open_store(path) as store:
        await _fill(store)
        await asyncio.to_thread(copy_store, path, path.with_name("killed.db"))
    return path


def _pages(path: Path) -> int:
    return path.stat().st_size // PAGE


def _zeroed(pristine: Path, number: int) -> Path:
    """A copy of the store, of which this page is zeros."""
    path = pristine.with_name("zeroed.db")
    copy_store(pristine, path)
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(bytes(PAGE))
    return path


async def _right(pristine: Path) -> list[Any]:
    path = pristine.with_name("right.db")
    copy_store(pristine, path)
    async with open_store(path) as store:
        right = await _questions(store)
    assert None not in right
    return right


async def test_each_page_is_found_at_the_start(pristine: Path) -> None:
    """The store is refused and left as it is, whatever page that it uses is zeros; one that it does not use is free."""
    right, free = await _right(pristine), 0
    for number in range(1, _pages(pristine) + 1):
        path = _zeroed(pristine, number)
        harmed = path.read_bytes()
        try:
            async with open_store(path) as store:
                assert await _questions(store) == right, number
                free += 1
        except ConfigurationFault:
            assert path.read_bytes() == harmed, number
    assert free < _pages(pristine) / 4


async def test_what_is_lost_later_is_not_served(pristine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer of a store that was opened before the page was lost is right or refused; and once one is refused,
    the store is damaged for good, which its fault tells."""
    right, refused = await _right(pristine), 0
    for number in range(2, _pages(pristine) + 1):
        with monkeypatch.context() as patched:
            patched.setattr(LostPages, "refuse", lambda _: None)
            opening = open_store(_zeroed(pristine, number))
            try:
                store = await opening.__aenter__()
            except ConfigurationFault:
                continue  # SQLite has noticed as it opened the store
        answers = await _questions(store)
        wrong = [answer for answer, expected in zip(answers, right, strict=True) if answer not in (None, expected)]
        assert not wrong, number
        assert (None in answers) == ("zeros" in (store.fault or "")), (number, store.fault)
        refused += None in answers
        await opening.__aexit__(None, None, None)
    assert refused > _pages(pristine) / 2


async def test_each_page_of_the_log(pristine: Path) -> None:
    """A frame whose page is zeros is no frame: the log ends there, which its mark tells."""
    killed, path = pristine.with_name("killed.db"), pristine.with_name("zeroed.db")
    log = killed.with_name("killed.db-wal").read_bytes()
    committed = sum(log[at + 8 : at + 16] == log[16:24] for at in range(LOG_HEADER, len(log) - FRAME + 1, FRAME))
    for frame in range(0, committed, 5):
        copy_store(killed, path)
        start = LOG_HEADER + frame * FRAME + 24
        path.with_name("zeroed.db-wal").write_bytes(log[:start] + bytes(PAGE) + log[start + PAGE :])
        with pytest.raises(ConfigurationFault, match="frames of it were committed"):
            await open_store(path).__aenter__()


@pytest.mark.parametrize("how", ["empty", "gone"])
async def test_a_store_without_pages_is_no_new_one(pristine: Path, how: str) -> None:
    """One that was emptied or removed is refused, and left so: what waited in it is not given up without a word. Once
    all of its files are gone, a new one is made."""
    path = _zeroed(pristine, 1)
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
    path.write_bytes(b"") if how == "empty" else path.unlink()
    with pytest.raises(ConfigurationFault, match="gone or empty, and commits were made in it"):
        await open_store(path).__aenter__()
    assert path.exists() == (how == "empty")
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    async with open_store(path) as store:
        assert (await _questions(store))[0] == []


async def test_a_sidecar_says_so(deployment: Deployment) -> None:
    """It does not start, and says which page it is."""
    async with deployment.sidecar() as client:
        for n, size in enumerate(SIZES):
            assert (await client.send(payload="p" * size, idempotency_key=key(n)))[0] == 202
    path = deployment.config.sidecar_store("pm")
    number = _pages(path)
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(ConfigurationFault, match=f"these pages are zeros, and were not: {number}"):
        async with deployment.sidecar():
            pass
