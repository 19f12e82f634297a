"""Processed-key memory: a message the agent has processed never reaches it again (promise 2).

A record is made before the adapter is told, so it begins as a claim that a refusal takes back. It stands for good once
the agent has a 2xx that rests on it alone, or once a later hand-over was absorbed because of it.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from shared.limits import PROCESSED_SECONDS_MIN
from shared.times import MICROSECONDS
from sidecar.core.handed_out import HANDED_MAX
from sidecar.store.lost_pages import stored_json, stored_time
from sidecar.store.store import Store, Unit

MEMORY_SECONDS: Final = PROCESSED_SECONDS_MIN
"""How long a key is remembered at least, also when the adapter has done with its message: an adapter that was restored
from a backup hands over again what it had forgotten to be processed."""

_OLD_ROWS: Final = 1_000

_RECENT_MAX: Final = HANDED_MAX
"""Among how many of the newest records a hand-over of an earlier process is sought: a few milliseconds' walk."""

_REMEMBER = (
    "INSERT INTO processed (sender, idempotency_key, delivery_id, result, processed_at_us) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_TAKE_BACK = "DELETE FROM processed WHERE sender = ? AND idempotency_key = ? AND NOT stands"
_STAND = "UPDATE processed SET stands = 1 WHERE sender = ? AND idempotency_key = ? RETURNING result, processed_at_us"
_RECENT = "SELECT delivery_id, sender, idempotency_key FROM processed ORDER BY id DESC LIMIT ?"
_RECALL = "SELECT result, processed_at_us FROM processed WHERE sender = ? AND idempotency_key = ?"
_NEWEST = "SELECT processed_at_us FROM processed ORDER BY id DESC LIMIT 1"
_OLDEST = "SELECT id, processed_at_us, sender, idempotency_key FROM processed WHERE id > ? ORDER BY id LIMIT ?"
_FORGET = "DELETE FROM processed WHERE id = ?"


class MessageKey(NamedTuple):
    """What names a message: keys are unique per sender."""

    sender: str
    idempotency_key: str


class Processed(NamedTuple):
    """A message, the hand-over in which the agent processed it, and its encoded result."""

    key: MessageKey
    delivery_id: str
    result: bytes | None


def remember(processed: Iterable[Processed], now_us: int) -> Unit[None]:
    """A unit that records messages as processed. The first record stays."""
    rows = [(*key, delivery_id, result, now_us) for key, delivery_id, result in processed]

    def unit(connection: sqlite3.Connection) -> None:
        connection.executemany(_REMEMBER, rows)

    return unit


def take_back(refused: Mapping[str, MessageKey]) -> Unit[set[str]]:
    """A unit for hand-overs whose acknowledgement was refused: their messages are not processed after all.

    Gives those whose record stands: they are processed for good, whatever became of the hand-over.
    """
    rows = dict(refused)

    def unit(connection: sqlite3.Connection) -> set[str]:
        connection.executemany(_TAKE_BACK, list(rows.values()))
        return {delivery_id for delivery_id, key in rows.items() if connection.execute(_RECALL, key).fetchone()}

    return unit


def stand(keys: Iterable[MessageKey]) -> Unit[dict[MessageKey, bytes | None]]:
    """A unit after which these records are never taken back; gives those that there are, with their results."""
    wanted = list(keys)

    def unit(connection: sqlite3.Connection) -> dict[MessageKey, bytes | None]:
        found = ((key, connection.execute(_STAND, key).fetchone()) for key in wanted)
        return {key: _result(*row) for key, row in found if row}

    return unit


async def of_hand_overs(store: Store, delivery_ids: Collection[str]) -> dict[str, MessageKey]:
    """The messages that were recorded for these hand-overs not long ago."""

    def unit(connection: sqlite3.Connection) -> dict[str, MessageKey]:
        recent = connection.execute(_RECENT, (_RECENT_MAX,))
        return {delivery_id: MessageKey(*key) for delivery_id, *key in recent if delivery_id in delivery_ids}

    return await store.read(unit)


async def recall(store: Store, keys: Iterable[MessageKey]) -> dict[MessageKey, bytes | None]:
    """Those of `keys` that were processed, with their encoded results."""
    wanted = list(keys)

    def unit(connection: sqlite3.Connection) -> dict[MessageKey, bytes | None]:
        found = ((key, connection.execute(_RECALL, key).fetchone()) for key in wanted)
        return {key: _result(*row) for key, row in found if row}

    return await store.read(unit)


async def old_records(store: Store, now_us: int, after: int = 0) -> list[tuple[int, MessageKey]]:
    """Up to 1,000 records older than the memory, by id, behind one of them. Age is counted back from the newest record:
    so a wall clock that leaps forward (a machine that woke with a wrong date) makes nothing old by itself."""

    def unit(connection: sqlite3.Connection) -> list[tuple[int, MessageKey]]:
        newest = connection.execute(_NEWEST).fetchone()
        if newest is None:
            return []
        cutoff_us = min(newest[0], now_us) - MEMORY_SECONDS * MICROSECONDS
        rows = connection.execute(_OLDEST, (after, _OLD_ROWS)).fetchall()
        return [(record_id, MessageKey(*key)) for record_id, at_us, *key in rows if stored_time(at_us) < cutoff_us]

    return await store.read(unit)


def forget(record_ids: Iterable[int]) -> Unit[None]:
    """A unit that removes records."""
    rows = [(record_id,) for record_id in record_ids]

    def unit(connection: sqlite3.Connection) -> None:
        connection.executemany(_FORGET, rows)

    return unit


def _result(column: bytes | None, processed_at_us: int) -> bytes | None:
    return None if column is None else stored_json(column, processed_at_us)
