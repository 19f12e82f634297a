"""A history for a store: many messages that were sent, received and acknowledged, written faster than they can be sent.

A real message of the deployment is the pattern. A copy has a key, a place, a time, a task and a signature of its own,
and a digest that fits; its row and that of its delivery are else as the adapter wrote them.
"""

import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from bench.adapter_store import open_store, stored_envelope, to_column
from bench.deployment import CannotRun
from shared.clock import Clock
from shared.database import transaction
from shared.envelope import ADAPTER_FIELDS, content_sha256
from shared.identifiers import uuid7
from shared.keys import Key
from shared.signing import sign_envelope
from shared.strict_json import encode
from shared.times import iso

MESSAGES_PER_TASK: Final = 10
_GROUP: Final = 2_000
_TOLD_EVERY: Final = 500_000
_BYTES_PER_MESSAGE: Final = 3_500
"""Space that a message of 2 KB takes at most, its indexes and delivery included; 2,900 were measured."""

Row = dict[str, Any]


async def fill_history(store: Path, count: int, key: Key, tell: Callable[[str], None]) -> None:
    """Bring a store that nobody has open to `count` messages, by copies of its newest one, which `key` has signed.

    `tell` hears now and then how many there are, in words for people. Raises `CannotRun` where the disk has no room.
    """
    free_bytes = shutil.disk_usage(store.parent).free
    if count * _BYTES_PER_MESSAGE > free_bytes:
        raise CannotRun(
            f"{count:,} messages take up to {count * _BYTES_PER_MESSAGE / 1e9:.0f} GB, and {store.parent} has "
            f"{free_bytes / 1e9:.0f} GB; store fewer or choose another folder with --dir"
        )
    database = await open_store(store)
    try:
        pattern = await database.run(lambda connection: _Pattern(connection, key))
        while pattern.newest < count:
            left = count - pattern.newest
            await database.run(partial(pattern.copy, count=min(left, _GROUP)))
            if pattern.newest % _TOLD_EVERY < _GROUP:
                tell(f"{pattern.newest:,} of {count:,} messages are stored")
        await database.settle()
    finally:
        await database.close()


class _Pattern:
    """The newest message of a store and its delivery. `newest` counts on from its number."""

    def __init__(self, connection: sqlite3.Connection, key: Key) -> None:
        (self.newest,) = connection.execute("SELECT max(id) FROM messages").fetchone()
        self._message = _row(connection, "messages", "id", self.newest)
        self._delivery = _row(connection, "deliveries", "message_id", self.newest)
        self._sequence = int(self._message["sequence"])
        stored = orjson.loads(stored_envelope(self._message["envelope"]))
        self._set_by_adapter = {name: stored[name] for name in stored if name in ADAPTER_FIELDS}
        self._content = {name: value for name, value in stored.items() if name not in ADAPTER_FIELDS}
        self._key, self._clock = key, Clock()
        if content_sha256(self._content) != self._message["content_sha256"]:
            raise CannotRun("the adapter no longer stores what this bench imitates: the digest of a message is another")

    def copy(self, connection: sqlite3.Connection, count: int) -> None:
        """Add so many, in one commit."""
        copies = [self._next() for _ in range(count)]
        with transaction(connection):
            _insert(connection, "messages", [message for message, _ in copies])
            _insert(connection, "deliveries", [delivery for _, delivery in copies])
            connection.execute("UPDATE channels SET last_message_id = ?", (self.newest,))
            connection.execute(
                "UPDATE channels SET last_sequence = ? WHERE id = ?", (self._sequence, self._message["channel_id"])
            )

    def _next(self) -> tuple[Row, Row]:
        self.newest += 1
        self._sequence += 1
        now_us, key = self._clock.wall_us(), uuid7()
        task = f"task-{self.newest // MESSAGES_PER_TASK}"
        content = sign_envelope({**self._content, "idempotency_key": str(key), "task_id": task}, self._key, now_us)
        places = {"channel_sequence_id": self._sequence, "timestamp_iso8601": iso(now_us)}
        message = {
            **self._message,
            "id": self.newest,
            "sequence": self._sequence,
            "idempotency_key": key.bytes,
            "content_sha256": content_sha256(content),
            "accepted_at_us": now_us,
            "task_id": task,
            "envelope": to_column(encode({**content, **self._set_by_adapter, **places})),
        }
        return message, {**self._delivery, "message_id": self.newest}


def _row(connection: sqlite3.Connection, table: str, column: str, value: int) -> Row:
    cursor = connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", (value,))  # noqa: S608 - names of ours
    return dict(zip([name for name, *_ in cursor.description], cursor.fetchone(), strict=True))


def _insert(connection: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    names = ", ".join(rows[0])
    values = ", ".join("?" * len(rows[0]))
    connection.executemany(
        f"INSERT INTO {table} ({names}) VALUES ({values})",  # noqa: S608 - names of ours
        [tuple(row.values()) for row in rows],
    )
