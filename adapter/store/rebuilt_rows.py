"""Rows that are taken over as they are, by the columns of the program's own schema."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from adapter.store.queries import REPAIR_SQL, SQL

KEYED: Final = {"messages": "id", "deliveries": "message_id", "dead_letters": "message_id"}
"""The large tables, and the number of a message in each, by which their rows are found."""


def statement(name: str, table: str, columns: str = "") -> str:
    """A statement of `repair.sql` over this table and these columns, which are names of the schema."""
    marks = ", ".join("?" * (columns.count(",") + 1))
    return REPAIR_SQL[name].format(table=table, key=KEYED.get(table, ""), columns=columns, marks=marks)


def table_columns(connection: sqlite3.Connection, table: str) -> str:
    """The columns of a table as a list for a statement."""
    return ", ".join(name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))


def insert_rows(connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[Any]) -> None:
    """Add rows whose values stand in the order of `columns`. One of a large table that is there already, as a page that
    stands in the place of another gives it, stays. Raises what SQLite raises for rows that are no rows of the table.
    """
    if rows:
        name = "insert_row_once" if table in KEYED else "insert_row"
        connection.executemany(statement(name, table, columns), [tuple(row) for row in rows])


def counted_messages(connection: sqlite3.Connection) -> int:
    """The number of the newest message that a store has counted; 0 for one without any."""
    newest: int | None = connection.execute(SQL["last_message_id"]).fetchone()[0]
    return newest or 0
