"""Retention's rows: what is stored of a channel, what was held, and how all of a message is forgotten."""

import sqlite3
from collections.abc import Collection

from adapter.core.retention import Lane, Retained
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.rows import Row, write_rows

_FORGOTTEN = ("prune_deliveries", "prune_dead_letters", "prune_held", "prune_messages")


def read_retained(connection: sqlite3.Connection, names: Names, channel: str, after: int, limit: int) -> list[Retained]:
    """Messages of a channel behind a sequence."""
    rows = connection.execute(SQL["retained"], (names.channel_ids[channel], after, limit))
    return [_retained(row, names) for row in rows]


def read_held(connection: sqlite3.Connection, names: Names, after: int, limit: int) -> list[Retained]:
    """Messages that were held, behind one of them."""
    return [_retained(row, names) for row in connection.execute(SQL["held"], (after, limit))]


def forget(connection: sqlite3.Connection, message_ids: Collection[int]) -> None:
    """Delete messages and everything that refers to them."""
    rows = [(message_id,) for message_id in message_ids]
    for statement in _FORGOTTEN:
        write_rows(connection, statement, rows)


def read_floors(connection: sqlite3.Connection, names: Names) -> dict[Lane, int]:
    """How far each scan has come."""
    rows = connection.execute(SQL["floors"])
    return {Lane(names.channel_names[channel_id], bool(contract)): at for channel_id, contract, at in rows}


def _retained(row: Row, names: Names) -> Retained:
    message_id, channel_id, contract, sequence, accepted_at_us, size, in_use = row
    channel = names.channel_names[channel_id]
    return Retained(message_id, channel, bool(contract), sequence, accepted_at_us, size, bool(in_use))
