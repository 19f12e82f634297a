"""Store engines behind one face, for the conformance suite and the property machine."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from adapter.core.commands import Command, Snapshot
from adapter.core.exchange import Exchange
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.store.memory import MemoryStore, MemoryTransaction
from adapter.store.names import Names
from adapter.store.queries import SCHEMA
from adapter.store.transaction import SqliteTransaction, load_snapshot
from shared.database import transaction
from tests.support.factories import topology


class RollbackError(Exception):
    """Raised by a test to end a transaction badly."""


class Engine(Protocol):
    """What every engine can do."""

    def begin(self) -> contextlib.AbstractContextManager[StoreTransaction]:
        """A transaction: committed at the end of the block, rolled back when it raises."""

    def snapshot(self) -> Snapshot:
        """What a restart would load."""

    def close(self) -> None:
        """Let it go."""


class SqliteEngine:
    """SQLite with the adapter's own schema and statements, in memory unless `path` is given."""

    def __init__(self, path: str = ":memory:") -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(SCHEMA)
        default = topology()
        with transaction(self.connection):
            self.names = Names.register(self.connection, (*default.roles, "adapter"), default.members)

    @contextlib.contextmanager
    def begin(self) -> Iterator[StoreTransaction]:
        """See `Engine`."""
        with transaction(self.connection):
            opened = SqliteTransaction(self.connection, self.names)
            yield opened
            opened.flush()
        self.names = opened.names

    def snapshot(self) -> Snapshot:
        """See `Engine`."""
        snapshot = load_snapshot(self.connection, self.names)
        return replace(snapshot, live=list(snapshot.live))

    def close(self) -> None:
        """See `Engine`."""
        self.connection.close()


class MemoryEngine:
    """Dictionaries."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    @contextlib.contextmanager
    def begin(self) -> Iterator[StoreTransaction]:
        """See `Engine`."""
        opened = MemoryTransaction(self._store)
        yield opened
        opened.commit()

    def snapshot(self) -> Snapshot:
        """See `Engine`."""
        return self._store.snapshot()

    def close(self) -> None:
        """See `Engine`."""


ENGINES = {"sqlite": SqliteEngine, "memory": MemoryEngine}


def ask(exchange: Exchange, engine: Engine, now: Now, *commands: Command) -> list[Any]:
    """The outcomes of one committed group."""
    with engine.begin() as store:
        return exchange.apply(list(commands), store, now)
