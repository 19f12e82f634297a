"""The adapter's store from inside, while no adapter has it open: for rows that are written faster than they can be
sent, and for what a connection like the adapter's is told. All else of the bench measures processes from outside."""

from pathlib import Path

from adapter.store.envelopes import stored_envelope, to_column
from adapter.store.queries import MIGRATIONS, SCHEMA
from shared.database import BUSY_STORE, Database, open_database

__all__ = ["open_store", "stored_envelope", "to_column"]


async def open_store(path: Path) -> Database:
    """The store, as the adapter opens it; raises what `open_database` raises."""
    return await open_database(path, SCHEMA, BUSY_STORE, MIGRATIONS)
