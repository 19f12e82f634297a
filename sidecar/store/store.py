"""The sidecar's store: one connection, one writer, and group commit.

A unit is a plain function of the connection. Units that wait together share one immediate transaction with
`synchronous=FULL`; a unit's result is given after the commit, so whoever has it may rely on it.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from shared.clock import Clock
from shared.config import ConfigurationFault
from shared.database import (
    QUIET_STORE,
    Damage,
    Database,
    SqliteError,
    ThreadEnded,
    describe_damage,
    doubt,
    is_certain,
    is_damage,
    load_migrations,
    log_bytes,
    open_database,
    stuck_bytes,
    transaction,
)
from shared.group_commit import GroupCommit
from shared.problems import Problem
from shared.service_manager import Standing
from shared.times import MICROSECONDS
from sidecar.store.lost_pages import LostPages

_FAULTS: Final = (SqliteError, OSError, Damage, ThreadEnded)
"""What a unit of ours may meet; anything else is a fault of the program."""

STUCK_BYTES_MAX: Final = QUIET_STORE.stuck_bytes_max

_LOG_LOOK_US: Final = 5 * MICROSECONDS
"""How often the length of the log is looked at, at most; commits do not wait for it."""

T = TypeVar("T")
Unit = Callable[[sqlite3.Connection], T]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0

_PATIENCE_SECONDS: Final = 2.0
"""What answers in milliseconds and has not answered after so long hangs."""


class Store:
    """Runs units. `fault` tells what the last write failed with, or is `None`; `failed_us` when one last did, by the
    steady clock. `changed` is called when writes begin to fail, when one succeeds again, and when the log has become so
    long that somebody should `look_at_log`, which keeps in `stuck_bytes` how much of it cannot leave it.

    Once a wrong page has proved that the store is damaged, nothing is taken or given any more. What SQLite calls
    malformed may be a disk that fails to read: unless a page is found to be lost, it is trouble that may pass, and the
    next start finds out.

    A connection whose thread has ended is replaced by the one that `connect` makes, for whoever comes next.
    """

    def __init__(
        self,
        database: Database,
        connect: Callable[[], Awaitable[Database]],
        path: Path,
        lost: LostPages,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._lost = lost
        self._connect = connect
        self._path = path
        self._look_us = 0
        self.stuck_bytes = 0
        self._replacing = asyncio.Lock()
        self._commits: GroupCommit[Unit[Any], Any] = GroupCommit(self._apply)
        self._damage: Exception | None = None
        self._clock = clock
        self._changed = changed
        self.fault: str | None = None
        self.failed_us: int | None = None

    @property
    def page_checksums(self) -> str:
        """`on`, or `off: ` and why."""
        return self._database.page_checksums

    def commit(self, unit: Unit[T]) -> "asyncio.Future[T]":
        """Queue a writing unit. Its result is durable; a failure is the problem `store-unavailable`.

        A unit does not raise: it shares its transaction with strangers. Cancelling the future does not undo it.
        """
        return cast("asyncio.Future[T]", self._commits.submit(unit))

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit; it sees every commit whose result was given."""
        self._refuse_if_damaged()
        try:
            return await self._run(unit)
        except _FAULTS as error:
            raise self._unavailable(error) from error

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

        self._refuse_if_damaged()
        try:
            results = await self._run(together)
        except _FAULTS as error:
            self._failed(error)
            raise self._unavailable(error) from error
        if self.fault is not None:
            self.fault = None
            self._changed()
        self._mind_log()
        return results

    def _mind_log(self) -> None:
        """After a commit, now and then: whether the log is so long that somebody should look."""
        now_us = self._clock.steady_us()
        if now_us < self._look_us:
            return
        if self._is_log_long():
            self._changed()
        else:
            self._look_us = now_us + _LOG_LOOK_US

    async def look_at_log(self) -> None:
        """Find out how much of a long log is stuck, unless that was done a moment ago. Nothing is moved in the files of
        a store that fails."""
        now_us = self._clock.steady_us()
        if now_us >= self._look_us and self.fault is None:
            self._look_us = now_us + _LOG_LOOK_US
            self.stuck_bytes = await self._stuck_bytes() if self._is_log_long() else 0

    async def _stuck_bytes(self) -> int:
        try:
            return await self._run(lambda connection: stuck_bytes(connection, self._path))
        except _FAULTS:  # who writes next is told
            return self.stuck_bytes

    def _is_log_long(self) -> bool:
        """From half of what is too much on, where a condition that lasts may be over."""
        return log_bytes(self._path) * 2 >= STUCK_BYTES_MAX

    def _failed(self, error: Exception) -> None:
        begins = self.fault is None
        self.fault, self.failed_us = str(error), self._clock.steady_us()
        if begins:
            self._changed()

    async def _run(self, unit: Unit[T]) -> T:
        if self._database.ended:
            await self._reopen()
        try:
            return await self._database.run(unit)
        except SqliteError as error:
            if is_damage(error) and not is_certain(error):
                await self._database.run(lambda _: self._lost.refuse())  # in the thread that writes, so nobody does
            raise

    async def _reopen(self) -> None:
        async with self._replacing:
            if self._database.ended:
                await self._database.close()
                self._database = await self._connect()
                _log.warning("store-reopened")

    def _refuse_if_damaged(self) -> None:
        if self._damage is not None:
            raise self._unavailable(self._damage)

    def _unavailable(self, error: Exception) -> Problem:
        if is_certain(error):
            self._damage = error
            self._failed(error)
            detail = f"The sidecar's own store is damaged: {error}. Its files are kept as they are; it needs a repair."
        else:
            detail = f"The sidecar's own store fails: {error}. Nothing was accepted; try again."
        return Problem("store-unavailable", detail, retry_after=_RETRY_SECONDS)

    async def close(self) -> None:
        """Commit what is queued and let the files go; the log of a store that is well is brought into it before."""
        await self.settled()
        if self._damage is None:
            with contextlib.suppress(*_FAULTS):  # what is committed is in the log
                await self._database.settle()
        await self._database.close()
        self._lost.close()


@asynccontextmanager
async def open_store(
    path: Path, clock: Clock | None = None, changed: Callable[[], None] = lambda: None
) -> AsyncIterator[Store]:
    """The store at `path`, made if absent; closed, with everything queued committed, at the end.

    Raises `ConfigurationFault` for one that is damaged: starting again would not mend it. A disk that fails to read is
    no damage, and raises what SQLite raised.
    """
    schema = resources.files("sidecar.store").joinpath("schema.sql").read_text(encoding="utf-8")

    lost = LostPages(path)

    async def connect() -> Database:
        await asyncio.to_thread(lost.refuse)
        return await open_database(path, schema, migrations=load_migrations("sidecar.store"))

    try:
        store = Store(await connect(), connect, path, lost, clock or Clock(), changed)
    except Exception as error:
        lost.close()
        if not is_damage(error) or await asyncio.to_thread(doubt, path, error) is not None:
            raise
        description = await asyncio.to_thread(describe_damage, path, error)
        raise ConfigurationFault(f"the store is damaged: {description}") from error
    try:
        yield store
    finally:
        await store.close()


def _probe_reading(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT count(*) FROM seen").fetchone()


def _probe_writing(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO seen (channel, sequence) VALUES ('', 0) ON CONFLICT DO UPDATE SET sequence = 0")
    connection.execute("DELETE FROM seen WHERE channel = ''")
