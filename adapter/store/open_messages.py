"""Reading units for a sidecar that is about to forget what its agent processed, or to send what waited for long."""

import sqlite3
from typing import Final
from uuid import UUID

from adapter.store.names import Names
from adapter.store.queries import SQL

PAGE_MAX: Final = 500
"""As many as wait for an agent by default."""


def read_open(
    connection: sqlite3.Connection, names: Names, agent: str, after: int
) -> tuple[list[tuple[str, str]], int | None]:
    """Sender and key of messages of which `agent` has a live delivery or an open dead letter, and where a page follows.

    In the order of messages, behind one of them: so what is replayed meanwhile is on the page that it was on.
    """
    given = after, names.agent_ids.get(agent), PAGE_MAX
    rows = [row for name in ("live_keys", "dead_keys") for row in connection.execute(SQL[name], given)]
    page = sorted(rows)[:PAGE_MAX]
    keys = [(names.agent_names[sender_id], str(UUID(bytes=bytes(key)))) for _, sender_id, key in page]
    return keys, page[-1][0] if len(page) == PAGE_MAX else None


def read_forgotten_us(connection: sqlite3.Connection, _: Names) -> int:
    """Before when messages, and their keys with them, may have been forgotten: a receipt time."""
    row: tuple[int, int] | None = connection.execute(SQL["retention_clock"]).fetchone()
    return 0 if row is None else row[1]
