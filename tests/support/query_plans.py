"""How SQLite carries out a statement, step by step (https://sqlite.org/eqp.html)."""

import ast
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.database import Database, open_database, transaction

_STATEMENT = re.compile(r"(WITH|SELECT|INSERT|UPDATE|DELETE|REPLACE)\s")
_GIVEN = re.compile(
    r"SCAN (CONSTANT ROW|\d+ CONSTANT ROWS|\d+-ROW VALUES CLAUSE|new|wanted)|(MATERIALIZE|CO-ROUTINE) \w+"
    r"|((CORRELATED )?SCALAR|LIST) SUBQUERY \d+"
)


@asynccontextmanager
async def filled(
    path: Path, schema: str, fill: Callable[[sqlite3.Connection], object], *, analysed: bool
) -> AsyncIterator[Database]:
    """A store on the library and with the settings of our processes, filled; with statistics, or without."""

    def unit(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            fill(connection)
        if analysed:
            connection.execute("ANALYZE")

    database = await open_database(path, schema)
    try:
        await database.run(unit)
        yield database
    finally:
        await database.close()


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    """The steps of a statement, without those that read the rows that came with it."""
    steps = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + text, [0] * text.count("?"))]
    return [step for step in steps if not _GIVEN.fullmatch(step)]


def walks(steps: list[str]) -> list[str]:
    """The steps that do not search by a key, or by an index that names what is sought."""
    return [
        step
        for step in steps
        if not (step.startswith("SEARCH") and "(" in step) and step != "USE TEMP B-TREE FOR DISTINCT"
    ]


def statements_in(folder: Path) -> Iterator[str]:
    """Every text in the Python files of a folder that is a statement."""
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _STATEMENT.match(node.value):
                yield node.value


def indexes_of(steps: list[str]) -> set[str]:
    """The indexes that a plan uses, by name."""
    return {name for step in steps for name in re.findall(r"\bINDEX (\w+)", step)}


def own_indexes(connection: sqlite3.Connection) -> set[str]:
    """The indexes of a database that somebody asked for: those without which a key could repeat are not among them."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql <> ''")}
