"""The scenario of a restore and of a repair: another file is put in the place of the store, and numbers go on.

`python -m tests.crash.replacing FOLDER MUTANT` plays it. It tells what was sent, and of each replacement, before it
begins, what the store will hold after it, and when it has ended.
"""

import asyncio
import contextlib
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import adapter.store.engine
from adapter.broker import Broker
from adapter.core.commands import Send
from adapter.store.backups import back_up_stopped
from adapter.store.engine import Store
from adapter.store.repairing import discard_repair, finish_repair, prepare_repair
from adapter.store.replacing import KEPT, finish_replacement, note_path
from adapter.store.restoring import carry_out, discard_restore, plan_restore
from shared.clock import Clock
from shared.database import SqliteError, Tuning, is_damage
from shared.durable_files import sync_file
from shared.problems import Problem
from shared.strict_json import decode_object
from tests.crash.mutants import mutated
from tests.crash.recording import settle_folders, tell
from tests.support.factories import membership, noise, policy, send
from tests.support.mortal import copy_store
from tests.support.store_hand import as_sent, looking_at

T = TypeVar("T")

STORE = "adapter/store.db"
_BACKUPS = "adapter/backups"
_PAGE = 8192
_TUNING = Tuning(wal_bytes=192 * 1024, cache_bytes=1024 * 1024)
"""A log so short that it costs little to record."""

_CHANNELS = ("product", "@qa")
_ROUNDS = 6
_MESSAGES = "SELECT c.name, m.sequence, m.envelope FROM messages AS m JOIN channels AS c ON c.id = m.channel_id"

_Held = set[tuple[str, int, int]]
"""Channel, sequence and number of each message of the scenario's own."""


class Scenario:
    """A store, what is done to it, and what is told of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "state" / STORE
        self._backups = folder / "state" / _BACKUPS
        self._numbers = itertools.count(1)

    def play(self) -> None:
        """Sends, a backup, sends; a restore, sends; damage, a repair, sends."""
        self._backups.mkdir(parents=True, mode=0o700)
        settle_folders(self._folder)
        asyncio.run(self._send())
        backup = self._backups / _until_done(
            lambda: back_up_stopped(self._store, self._backups, _now_us(), _nothing).name
        )
        asyncio.run(self._send())
        self._restore(backup)
        lost = asyncio.run(self._send(settle=True))
        asyncio.run(self._send())
        self._damage(lost)
        self._repair(backup)
        asyncio.run(self._send())

    async def _send(self, *, settle: bool = False) -> int:
        """A start, sends to each channel, and an end that leaves all in the log, or a stop; the first number."""
        store = _new_store(self._store)
        await store.start()
        broker = Broker(store, Clock())
        first = next(self._numbers)
        for number, channel in zip(itertools.chain([first], self._numbers), _CHANNELS * _ROUNDS, strict=False):
            command = send(to=channel, payload={"n": number, "text": noise(number, 1_200)})
            receipt = await _answered(broker, command)
            self._tell(kind="sent", channel=channel, sequence=receipt.sequence, n=number)
        await broker.close()
        await (store.close() if settle else store.close_connections())
        return first

    def _restore(self, backup: Path) -> None:
        def restore() -> None:
            plan = plan_restore(self._store, backup)
            self._begin("restore", _read(backup))
            carry_out(self._store, plan, _now_us(), _nothing)

        self._replace(restore)

    def _replace(self, replacement: Callable[[], None]) -> None:
        """Until it is done. One whose last sync has failed is, though it says that it has failed."""
        before = _digest(self._store)
        while True:
            with contextlib.suppress(OSError, SqliteError):
                replacement()
                break
            _until_done(lambda: finish_replacement(self._store))
            if _digest(self._store) != before:
                break
            self._tell(kind="failed")
        self._tell(kind="ended")

    def _damage(self, number: int) -> None:
        """Of the page in the store's file that holds this message, which no backup has."""
        self._tell(kind="damaging")
        at = self._store.read_bytes().index(noise(number, 1_200).encode()) // _PAGE * _PAGE
        with self._store.open("r+b", buffering=0) as file:
            file.seek(at)
            file.write(b"\x05" * _PAGE)
        _until_done(lambda: sync_file(self._store))

    def _repair(self, backup: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as elsewhere:
            trial = Path(elsewhere, "store.db")
            copy_store(self._store, trial)
            shutil.copyfile(*(each.with_name("store.db-reserved") for each in (self._store, trial)))
            finish_repair(trial, prepare_repair(trial, backup, _now_us(), _nothing, _CHANNELS), _now_us())
            after = _read(trial)

        def repair() -> None:
            self._begin("repair", after)
            finish_repair(self._store, prepare_repair(self._store, backup, _now_us(), _nothing, _CHANNELS), _now_us())

        self._replace(repair)

    def _begin(self, why: str, after: _Held) -> None:
        self._tell(kind="began", why=why, after=sorted(after), sha256=_digest(self._store))

    def _tell(self, **promise: Any) -> None:
        tell(self._folder, promise)


def _until_done(work: Callable[[], T]) -> T:
    """Again where a sync was made to fail."""
    while True:
        with contextlib.suppress(OSError, SqliteError):
            return work()


async def _answered(broker: Broker, command: Send) -> Any:
    """The receipt, asked for again while the store fails."""
    while True:
        with contextlib.suppress(Problem):
            return await broker.ask(command)
        await asyncio.sleep(0.01)


def _now_us() -> int:
    return Clock().wall_us()


def _nothing(*_: object) -> None:
    """Nobody looks on."""


def _new_store(path: Path) -> Store:
    return Store(path, membership(), policy(), Clock())


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> _Held:
    """What a store holds that nobody has open."""
    with looking_at(path) as connection:
        return _own(connection.execute(_MESSAGES))


def _own(rows: Any) -> _Held:
    messages = ((channel, sequence, decode_object(as_sent(envelope))) for channel, sequence, envelope in rows)
    return {(channel, sequence, each["payload"]["n"]) for channel, sequence, each in messages if "n" in each["payload"]}


def play(folder: Path) -> None:
    """The scenario."""
    with mock.patch.object(adapter.store.engine, "BUSY_STORE", _TUNING):
        Scenario(folder).play()


# Afterwards


@dataclass
class _Told:
    """What the promises come to: what the store holds, what it held before each replacement, and what it may hold
    instead, once one has begun."""

    held: _Held = field(default_factory=set)
    given: _Held = field(default_factory=set)
    began: dict[str, Any] | None = None
    is_damaged: bool = False
    before: list[tuple[dict[str, Any], _Held]] = field(default_factory=list)

    def take(self, promise: dict[str, Any]) -> None:
        if promise["kind"] == "sent":
            place = promise["channel"], promise["sequence"], promise["n"]
            self.held.add(place)
            self.given.add(place)
        elif promise["kind"] == "began":
            self.began = promise
            self.before.append((promise, set(self.held)))
        elif promise["kind"] == "damaging":
            self.is_damaged = True
        elif promise["kind"] == "failed":
            if self.began is not None:
                self.before.pop()
            self.began = None
        else:
            self.held, self.began, self.is_damaged = self.after, None, False

    @property
    def after(self) -> _Held:
        """What the replacement under way makes of it."""
        return {(channel, sequence, n) for channel, sequence, n in (self.began or {"after": ()})["after"]}


def faults(folder: Path, promises: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What a start finds that is neither the store of before nor the new one, or gives a number twice, or has lost the
    files of before. The sends until the first replacement are the subject of another scenario."""
    told, path = _Told(), folder / STORE
    for promise in promises:
        told.take(promise)
    if not told.before:
        return
    try:
        found, given = asyncio.run(_start(path))
    except Exception as error:  # whatever it is: it is judged here
        yield from _refusal_faults(path, told, error)
        return
    if note_path(path).exists():
        yield "the store is open, and a replacement is noted"
    yield from _given_twice(told, given)
    replaced = told.began is None or found == told.after
    if told.began is not None and found not in (told.held, told.after):
        yield f"it holds neither what it held nor the new: {sorted(found)}"
    elif told.began is None and not _is_whole(found, told.held):
        yield f"it lacks {sorted(told.held - found)} and has {sorted(found - told.held)}"
    yield from _kept_faults(path, told.before if replaced else told.before[:-1])


async def _start(path: Path) -> tuple[_Held, list[tuple[str, int]]]:
    """As the adapter starts, but for a repair by itself: what it can read, and the numbers that it gives next."""
    discard_repair(path)
    discard_restore(path)
    store = _new_store(path)
    try:
        await store.open()
        store.mending.end()
        found = _own(await store.read(lambda connection, _: connection.execute(_MESSAGES).fetchall()))
        broker = Broker(store, Clock())
        given = [(channel, (await broker.ask(send(to=channel))).sequence) for channel in _CHANNELS]
        await broker.close()
        return found, given
    finally:
        await store.close_connections()


def _refusal_faults(path: Path, told: _Told, error: Exception) -> Iterator[str]:
    """Only a damaged store is refused, until it is repaired, and it is left as it is."""
    proof = is_damage(error.__cause__ or error) if isinstance(error, Problem) else is_damage(error)
    if not told.is_damaged or not proof:
        yield f"it is refused: {error!r}"
    elif told.began is not None and _digest(path) != told.began["sha256"]:
        yield "it is refused, and is not the damaged store of before"


def _is_whole(found: _Held, held: _Held) -> bool:
    """Whether all is there, and nothing but what was being sent just then."""
    newest = max(n for _, _, n in held)
    return held <= found and all(n > newest for _, _, n in found - held)


def _given_twice(told: _Told, given: list[tuple[str, int]]) -> Iterator[str]:
    for channel, sequence in given:
        last = max(each for name, each, _ in told.given if name == channel)
        if sequence <= last:
            yield f"{channel} gives {sequence}, and had given {last}"


def _kept_faults(path: Path, before: list[tuple[dict[str, Any], _Held]]) -> Iterator[str]:
    """Each replacement has kept what it replaced: the damaged file as it was, and of a whole one every message."""
    for promise, held in before:
        kept = (each / path.name for each in (path.parent / KEPT).glob(f"*-{promise['why']}*"))
        whole = [each for each in kept if each.exists() and _digest(each) == promise["sha256"]]
        if len(whole) != 1:
            yield f"the files of before the {promise['why']} are not kept as they were"
        elif promise["why"] == "restore" and not held <= _read(whole[0]):
            yield f"the files of before the {promise['why']} lack messages"


if __name__ == "__main__":
    with mutated(sys.argv[2]):
        play(Path(sys.argv[1]))
