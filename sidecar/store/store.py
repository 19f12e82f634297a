"""The sidecar's store: one connection, one writer, and group commit.

A unit is a plain function of the connection. Units that wait together share one immediate transaction with
`synchronous=FULL`; a unit's result is given after the commit, so whoever has it may rely on it.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from shared.database import Database, SqliteError, open_database, transaction
from shared.group_commit import GroupCommit
from shared.problems import Problem
from shared.service_manager import Standing

T = TypeVar("T")
Unit = Callable[[sqlite3.Connection], T]

_RETRY_SECONDS: Final = 1.0

_PATIENCE_SECONDS: Final = 2.0
"""What answers in milliseconds and has not answered after so long hangs."""


class Store:
    """Runs units. `fault` tells what the last write failed with, or is `None`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits: GroupCommit[Unit[Any], Any] = GroupCommit(self._apply)
        self.fault: str | None = None

    def commit(self, unit: Unit[T]) -> "asyncio.Future[T]":
        """Queue a writing unit. Its result is durable; a failure is the problem `store-unavailable`.

        A unit does not raise: it shares its transaction with strangers. Cancelling the future does not undo it.
        """
        return cast("asyncio.Future[T]", self._commits.submit(unit))

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit; it sees every commit whose result was given."""
        try:
            return await self._database.run(unit)
        except (SqliteError, OSError) as error:
            raise _unavailable(error) from error

    async def settled(self) -> None:
        """Wait until no unit is queued or in flight."""
        await self._commits.drained()

    async def check(self) -> None:
        """Raise `store-unavailable` when the store cannot be read, or could not be written and still cannot."""
        if self.fault is None:
            await self.read(_probe_reading)
        else:
            await self.commit(_probe_writing)

    async def standing(self) -> Standing:
        """For systemd. A store that says what is wrong may recover; one that does not answer needs a restart."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self.check()
        except Problem as problem:
            return Standing(problem.detail)
        except TimeoutError:
            return Standing("the store does not answer", stuck=True)
        return Standing()

    async def _apply(self, units: list[Unit[Any]]) -> list[Any]:
        def together(connection: sqlite3.Connection) -> list[Any]:
            with transaction(connection):
                return [unit(connection) for unit in units]

        try:
            results = await self._database.run(together)
        except (SqliteError, OSError) as error:
            self.fault = str(error)
            raise _unavailable(error) from error
        self.fault = None
        return results


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """The store at `path`, made if absent; closed, with everything queued committed, at the end."""
    schema = resources.files("sidecar.store").joinpath("schema.sql").read_text(encoding="utf-8")
    database = await open_database(path, schema)
    store = Store(database)
    try:
        yield store
    finally:
        await store.settled()
        await database.close()


def _unavailable(error: Exception) -> Problem:
    detail = f"The sidecar's own store fails: {error}. Nothing was accepted; try again."
    return Problem("store-unavailable", detail, retry_after=_RETRY_SECONDS)


def _probe_reading(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT count(*) FROM seen").fetchone()


def _probe_writing(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO seen (channel, sequence) VALUES ('', 0) ON CONFLICT DO UPDATE SET sequence = 0")
    connection.execute("DELETE FROM seen WHERE channel = ''")
