"""The statements of `queries.sql`, and of `repair.sql`, by name."""

from importlib.resources import files
from typing import Final

from shared.database import load_migrations

_MARK: Final = "\n-- name: "


def _text(name: str) -> str:
    return files("adapter.store").joinpath(name).read_text(encoding="utf-8")


def _load(text: str) -> dict[str, str]:
    statements = {}
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        statements[name.strip()] = body.strip()
    return statements


SCHEMA: Final = _text("schema.sql")
SQL: Final = _load(_text("queries.sql"))
REPAIR_SQL: Final = _load(_text("repair.sql"))
MIGRATIONS: Final = load_migrations("adapter.store")

READABLE: Final = frozenset({0, 1, 2})
"""Versions with the tables of this schema, whose rows can be taken over one by one; 0 where a store does not say."""
