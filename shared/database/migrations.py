"""Versions of a store: which steps bring an older one to the program's, and how each is taken.

Forward only. The version stands in the store (`PRAGMA user_version`); one that does not say, and has tables, is of
version 1. Each step is one transaction with the version it leads to, after a verified backup of the store as it was.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from shared.config import ConfigurationFault
from shared.database.backup import write_backup
from shared.database.connection import transaction
from shared.database.damage import WRONG_CHECKSUM, Damage
from shared.database.library import SqliteError

FIRST: Final = 1


class Migration(NamedTuple):
    """The statements that bring a store of version `number - 1` to `number`."""

    number: int
    script: str


def load_migrations(package: str) -> tuple[Migration, ...]:
    """The files `NNNN.sql` of the folder `migrations` in `package`, by number."""
    folder = files(package).joinpath("migrations")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql")) if folder.is_dir() else []
    return tuple(
        Migration(int(name.removesuffix(".sql")), folder.joinpath(name).read_text(encoding="utf-8")) for name in names
    )


def newest(migrations: Sequence[Migration]) -> int:
    """The version of the program."""
    return migrations[-1].number if migrations else FIRST


def plan(said: int, migrations: Sequence[Migration], *, is_new: bool) -> list[Migration]:
    """The steps for a store that says `said` of itself, 0 being nothing. A new one is made as it is now.

    Raises `ConfigurationFault` for a store that is newer than the program, and `ValueError` for numbers with a hole.
    """
    if [each.number for each in migrations] != list(range(FIRST + 1, FIRST + 1 + len(migrations))):
        raise ValueError(f"migrations are numbered from {FIRST + 1} on without a hole")
    version = said or FIRST
    if version > newest(migrations):
        raise ConfigurationFault(
            f"the store is of version {version}, and this program knows {newest(migrations)}; nothing was changed. "
            "Install the newer program again, or restore a backup of that version"
        )
    return [] if is_new else [each for each in migrations if each.number > version]


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: run together, they would end the transaction around them."""
    statement = ""
    *parts, rest = script.split(";")
    for part in parts:
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if (statement + rest).strip():
        yield statement + rest


def version_of(connection: sqlite3.Connection) -> int:
    """What a store says of itself."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether it has no table yet."""
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def migrate(connection: sqlite3.Connection, path: Path, schema: str, migrations: Sequence[Migration]) -> None:
    """Bring an open store to the program's version; raises what `plan`, SQLite and `write_backup` raise.

    `schema` is how a new store is made. It is gone over at each opening, so what is only added to it (a table, an
    index) needs no migration.
    """
    said = version_of(connection)
    steps = plan(said, migrations, is_new=is_empty(connection))
    if steps:
        _back_up(connection, path, said or FIRST)
    bring_forward(connection, schema, migrations)


def check_version(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Raise `ConfigurationFault` for a store that is newer than the program."""
    plan(version_of(connection), migrations, is_new=False)


def bring_forward(connection: sqlite3.Connection, schema: str, migrations: Sequence[Migration]) -> None:
    """The same without a backup of what it was: for a copy."""
    for step in plan(version_of(connection), migrations, is_new=is_empty(connection)):
        with transaction(connection):
            for statement in statements(step.script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={step.number}")
    with transaction(connection):
        for statement in statements(schema):
            connection.execute(statement)
        if version_of(connection) != newest(migrations):
            connection.execute(f"PRAGMA user_version={newest(migrations)}")


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Once: after a crash between two steps the first copy is still the store as it was."""
    target = path.with_name(f"{path.name}-version-{version}")
    if target.exists():
        return
    try:
        write_backup(connection, target)
    except SqliteError:
        _look_for_damage(connection)
        raise


def _look_for_damage(connection: sqlite3.Connection) -> None:
    """A copy that fails does not say of which kind its error was: raise `Damage`, or what SQLite raises, for pages with
    wrong checksums."""
    said = connection.execute("PRAGMA quick_check").fetchall()
    wrong = [line for (line,) in said if f"error code={WRONG_CHECKSUM}" in line]
    if wrong:
        raise Damage("; ".join(wrong))
