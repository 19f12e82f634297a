"""Many rows in one statement.

Each step of a statement gives up the interpreter, and taking it back from a busy event loop costs more than the row
itself. A statement of `queries.sql` that takes rows says `{rows}`; it is run for 64, 32, ... or 1 of them at a time,
so that a handful of prepared texts serves every number.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from adapter.store.queries import SQL

_ROWS_MAX: Final = 64
"""Rows of one statement: 64 of the widest have 960 variables, within the 32,766 of SQLite (sqlite.org/limits.html)."""

Row = tuple[Any, ...]


def write_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> None:
    """Run a writing statement over `rows`."""
    for part in _parts(rows):
        connection.execute(_text(statement, len(part[0]), len(part)), list(chain.from_iterable(part)))


def read_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> Iterator[Row]:
    """What a reading statement finds for `rows`."""
    for part in _parts(rows):
        yield from connection.execute(_text(statement, len(part[0]), len(part)), list(chain.from_iterable(part)))


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    while (left := len(rows) - start) > 0:
        size = min(1 << left.bit_length() - 1, _ROWS_MAX)
        yield rows[start : start + size]
        start += size


@lru_cache(maxsize=256)
def _text(statement: str, width: int, count: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return SQL[statement].replace("{rows}", ",".join([row] * count))
