"""Processed-key memory: a message the agent has processed never reaches it again (promise 2)."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from shared.clock import Clock
from shared.problems import Problem
from shared.times import MICROSECONDS
from sidecar.store.store import Store, Unit

MEMORY_SECONDS: Final = 31 * 24 * 3_600
"""Longer than any retention of messages that could be handed over again: those live 30 days (promise 15)."""

_PRUNE_ROWS: Final = 1_000

_PRUNE_SECONDS: Final = 3_600.0
"""How often; nothing rests on it but the size of the file."""

_REMEMBER = (
    "INSERT INTO processed (sender, idempotency_key, result, processed_at_us) VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_FORGET = "DELETE FROM processed WHERE sender = ? AND idempotency_key = ?"
_RECALL = "SELECT result FROM processed WHERE sender = ? AND idempotency_key = ?"
_NEWEST = "SELECT processed_at_us FROM processed ORDER BY id DESC LIMIT 1"
_PRUNE = "DELETE FROM processed WHERE id IN (SELECT id FROM processed ORDER BY id LIMIT ?) AND processed_at_us < ?"


class MessageKey(NamedTuple):
    """What names a message: keys are unique per sender."""

    sender: str
    idempotency_key: str


def remember(results: Mapping[MessageKey, bytes | None], now_us: int) -> Unit[None]:
    """A unit that records messages as processed, each with its encoded result. The first record stays."""

    def unit(connection: sqlite3.Connection) -> None:
        connection.executemany(_REMEMBER, [(*key, result, now_us) for key, result in results.items()])

    return unit


def forget(keys: Iterable[MessageKey]) -> Unit[None]:
    """A unit that takes records back: these messages are not processed after all."""
    rows = list(keys)

    def unit(connection: sqlite3.Connection) -> None:
        connection.executemany(_FORGET, rows)

    return unit


async def recall(store: Store, keys: Iterable[MessageKey]) -> dict[MessageKey, bytes | None]:
    """Those of `keys` that were processed, with their encoded results."""
    wanted = list(keys)

    def unit(connection: sqlite3.Connection) -> dict[MessageKey, bytes | None]:
        found = ((key, connection.execute(_RECALL, key).fetchone()) for key in wanted)
        return {key: row[0] for key, row in found if row}

    return await store.read(unit)


async def keep_pruned(store: Store, clock: Clock) -> None:
    """Prune now and then, for as long as the process lives; cancel it to end it."""
    while True:
        with contextlib.suppress(Problem):  # the store fails; there is a next time
            await prune(store, clock.wall_us())
        await asyncio.sleep(_PRUNE_SECONDS)


async def prune(store: Store, now_us: int) -> None:
    """Forget what is older than the memory, counted back from the newest record.

    So a wall clock that leaps forward (a machine that woke with a wrong date) does not empty the memory at once.
    """

    def unit(connection: sqlite3.Connection) -> int:
        newest = connection.execute(_NEWEST).fetchone()
        if newest is None:
            return 0
        cutoff_us = min(newest[0], now_us) - MEMORY_SECONDS * MICROSECONDS
        return connection.execute(_PRUNE, (_PRUNE_ROWS, cutoff_us)).rowcount

    while await store.commit(unit) == _PRUNE_ROWS:
        pass
