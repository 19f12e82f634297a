"""The statements of `queries.sql`, by name."""

from importlib.resources import files
from typing import Final

from shared.database import load_migrations

_MARK: Final = "\n-- name: "


def _load(text: str) -> dict[str, str]:
    statements = {}
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        statements[name.strip()] = body.strip()
    return statements


SCHEMA: Final = files("adapter.store").joinpath("schema.sql").read_text(encoding="utf-8")
SQL: Final = _load(files("adapter.store").joinpath("queries.sql").read_text(encoding="utf-8"))
MIGRATIONS: Final = load_migrations("adapter.store")
