"""`StoreTransaction` on SQLite: additions gather and are written in few multi-row statements at the end."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Final

from adapter.core.commands import NewMessage, Snapshot, StoredSend
from adapter.core.delivery import Delivery, State
from adapter.store.names import Names
from adapter.store.queries import SQL

_MESSAGE_COUNTER: Final = "message"


class SqliteTransaction:
    """One transaction's view. `flush` writes what it gathered; the caller begins and commits."""

    def __init__(self, connection: sqlite3.Connection, names: Names) -> None:
        self._connection = connection
        self._names = names
        self._added: list[NewMessage] = []
        self._by_key: dict[tuple[str, bytes], StoredSend] = {}
        self._bodies: dict[int, bytes] = {}
        self._places: dict[tuple[str, int], bytes] = {}

    def find_send(self, sender: str, idempotency_key: bytes) -> StoredSend | None:
        """See `StoreTransaction`."""
        fresh = self._by_key.get((sender, idempotency_key))
        if fresh is not None:
            return fresh
        row = self._connection.execute(SQL["find_send"], (self._names.agent_ids[sender], idempotency_key)).fetchone()
        if row is None:
            return None
        message_id, digest, channel_id, sequence, accepted_at_us = row
        return StoredSend(message_id, digest, self._names.channel_names[channel_id], sequence, accepted_at_us)

    def add_message(self, message: NewMessage) -> None:
        """See `StoreTransaction`."""
        send = message.send
        self._added.append(message)
        self._bodies[message.message_id] = message.envelope
        self._places[send.channel, message.sequence] = message.envelope
        self._by_key[send.sender, send.idempotency_key] = StoredSend(
            message.message_id, send.content_sha256, send.channel, message.sequence, message.accepted_at_us
        )

    def envelope_at(self, channel: str, sequence: int) -> bytes | None:
        """See `StoreTransaction`."""
        fresh = self._places.get((channel, sequence))
        if fresh is not None:
            return fresh
        row = self._connection.execute(SQL["envelope_at"], (self._names.channel_ids[channel], sequence)).fetchone()
        return None if row is None else bytes(row[0])

    def envelopes(self, message_ids: list[int]) -> Mapping[int, bytes]:
        """See `StoreTransaction`."""
        return {message_id: self._envelope(message_id) for message_id in message_ids}

    def deliveries_of(self, message_id: int) -> list[Delivery]:
        """See `StoreTransaction`."""
        rows = self._connection.execute(SQL["deliveries_of"], (message_id,)).fetchall()
        return [_delivery(row, self._names) for row in rows]

    def find_delivery(self, message_id: int, recipient: str) -> Delivery | None:
        """See `StoreTransaction`."""
        key = (message_id, self._names.agent_ids[recipient])
        row = self._connection.execute(SQL["find_delivery"], key).fetchone()
        return None if row is None else _delivery(row, self._names)

    def save_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """See `StoreTransaction`."""
        agent_ids = self._names.agent_ids
        self._connection.executemany(
            SQL["save_delivery"],
            [
                (
                    d.message_id,
                    agent_ids[d.recipient],
                    d.state,
                    d.order_key,
                    d.critical,
                    d.handovers,
                    d.failures,
                    d.solo,
                    d.expires_at_us,
                    d.lease_until_us,
                    d.not_before_us,
                    d.token,
                    d.reason,
                    d.detail,
                    d.result,
                )
                for d in deliveries
            ],
        )

    def save_sequences(self, sequences: Mapping[str, int], last_message_id: int) -> None:
        """See `StoreTransaction`."""
        channel_ids = self._names.channel_ids
        rows = [(sequence, channel_ids[channel]) for channel, sequence in sequences.items()]
        self._connection.executemany(SQL["save_sequence"], rows)
        self._connection.execute(SQL["save_counter"], (_MESSAGE_COUNTER, last_message_id))

    def flush(self) -> None:
        """Write the messages that were added."""
        if self._added:
            self._connection.executemany(SQL["insert_message"], [self._row(m) for m in self._added])

    def _row(self, message: NewMessage) -> tuple[Any, ...]:
        send = message.send
        return (
            message.message_id,
            self._names.channel_ids[send.channel],
            message.sequence,
            self._names.agent_ids[send.sender],
            send.idempotency_key,
            send.content_sha256,
            message.accepted_at_us,
            send.keep_forever,
            send.envelope.get("task_id"),
            send.envelope.get("parent_task_id"),
            message.envelope,
        )

    def _envelope(self, message_id: int) -> bytes:
        fresh = self._bodies.get(message_id)
        if fresh is not None:
            return fresh
        row = self._connection.execute(SQL["envelope"], (message_id,)).fetchone()
        if row is None:
            raise sqlite3.DatabaseError(f"message {message_id} has deliveries and no row")
        return bytes(row[0])


def load_snapshot(connection: sqlite3.Connection, names: Names) -> Snapshot:
    """What the exchange starts from: counters, sequences, and the live deliveries without their bodies."""
    counter = connection.execute(SQL["counter"], (_MESSAGE_COUNTER,)).fetchone()
    newest = connection.execute(SQL["last_accepted_at"]).fetchone()
    sequences = {name: last for _, name, last in connection.execute(SQL["channels"])}
    live = [_delivery(row, names) for row in connection.execute(SQL["live_deliveries"])]
    return Snapshot(counter[0] if counter else 0, newest[0] if newest else 0, sequences, live)


def _delivery(row: tuple[Any, ...], names: Names) -> Delivery:
    return Delivery(
        message_id=row[0],
        recipient=names.agent_names[row[1]],
        state=State(row[2]),
        order_key=row[3],
        critical=bool(row[4]),
        handovers=row[5],
        failures=row[6],
        solo=bool(row[7]),
        expires_at_us=row[8],
        lease_until_us=row[9],
        not_before_us=row[10],
        token=row[11],
        reason=row[12],
        detail=row[13],
        result=row[14],
    )
