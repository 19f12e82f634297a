"""The SQLite engine: one connection that decides and writes, one that reads ranges and tasks.

On a SQLite that may have the WAL-reset fault (`shared/database/verdict.py`) the first does both: while there is no
second connection, none can checkpoint at the same moment.

A failed commit is final for its group: every command of it is refused, the exchange in memory is thrown away, and
the file is opened again and read from the disk (`adapter/store/mending.py`). Until that succeeds, with a write to prove
it, the store is not ready.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from adapter.core.commands import Command, HandedOver, TakeFile
from adapter.core.exchange import Exchange
from adapter.core.losses import NO_LOSSES
from adapter.core.policy import Now, Policy
from adapter.core.pruning import PruningFigures
from adapter.core.routing import Topology
from adapter.store.copying import Copying
from adapter.store.integrity import Integrity
from adapter.store.jump import read_losses
from adapter.store.log_length import LogLength
from adapter.store.mending import REOPEN_SECONDS, Mending
from adapter.store.names import Names
from adapter.store.pulse import Pulse, is_at_risk
from adapter.store.queries import MIGRATIONS, SCHEMA, SQL
from adapter.store.replacing import finish_replacement
from adapter.store.reserve import Reserve
from adapter.store.snapshot import on_snapshot
from adapter.store.startup import check_live_part
from adapter.store.topologies import log_file_taken
from adapter.store.transaction import SqliteTransaction, load_snapshot
from shared.clock import Clock
from shared.config import ConfigurationFault, Membership
from shared.database import (
    BUSY_STORE,
    SQLITE_VERDICT,
    Damage,
    Database,
    SqliteError,
    ThreadEnded,
    Verdict,
    is_damage,
    open_database,
    open_reader,
    transaction,
)
from shared.problems import Problem
from shared.times import MICROSECONDS

_log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 0.6
"""How long a probe may take before the store is not ready: so an answer takes less than a second."""

T = TypeVar("T")


def _nothing(*_: object) -> None:
    """Before anybody listens."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What one durable group gave: outcomes in order, parked polls served, and when the next tick is due; who the
    members are after it, and how many messages the Human Governor was sent in all."""

    outcomes: list[Any]
    handed_over: list[tuple[int, str, list[HandedOver]]]
    next_due_us: int | None
    topology: Topology
    letters: int


class Store:
    """The store of one adapter. `fault` says why it is not ready, or is None; `mending` is what becomes of it then.

    `on_fault` is called when it stops being ready, and `on_open` each time it is again. `on_topology` is told who the
    members are, and who ever was one, at each opening and after each commit that has changed them: what is committed,
    and nothing else.
    """

    def __init__(
        self,
        path: Path,
        file: Membership,
        policy: Policy,
        clock: Clock,
        probe_seconds: float = 10.0,
        library: Verdict = SQLITE_VERDICT,
    ) -> None:
        """`probe_seconds` is how often an idle store is written to at most, to see whether that works; `library` is
        what to think of the SQLite beneath.
        """
        self._path = path
        self._library = library
        self._file: Membership | None = file  # until it was read: a store that is opened anew knows better
        self._topology: Topology | None = None
        self._policy = policy
        self._clock = clock
        self._pulse = Pulse(int(probe_seconds * MICROSECONDS))
        self._probe: asyncio.Task[None] | None = None
        self._probe_begun_us = 0
        self.on_fault: Callable[[], None] = _nothing
        self.on_open: Callable[[], None] = _nothing
        self.on_topology: Callable[[Topology, Iterable[str]], None] = _nothing
        self._writer: Database | None = None
        self._reader: Database | None = None
        self._exchange: Exchange | None = None
        self._names: Names | None = None
        self.mending = Mending(path, self)
        self._last_message_id = 0  # of what is committed
        self.integrity = Integrity(path, clock)
        self.integrity.on_damage = self._distrust
        self.copying, self.log = Copying(), LogLength(path)
        self._reserve, self.losses = Reserve(path), NO_LOSSES

    @property
    def fault(self) -> str | None:
        """Why it is not ready, or None."""
        return self.mending.fault

    async def start(self) -> None:
        """Open, now or as soon as it can be: until then the process answers, is not ready, and says why.

        Raises `ConfigurationFault` for what trying again would not mend, as a store that is newer than the program.
        """
        try:
            await self.open()
        except ConfigurationFault:
            await self.close_connections()
            raise
        except Exception as error:
            _log.exception("open-failed")
            self._fail(error)

    async def open(self) -> None:
        """Open, bring the live deliveries into memory, and prove that writing works; raises what SQLite raises."""
        kept = finish_replacement(self._path)
        if kept is not None:
            _log.warning("replacement-finished: the files of before are in %s", kept)
        self.integrity.opening()
        self._writer = await open_database(self._path, SCHEMA, BUSY_STORE, MIGRATIONS)
        exchange, self._names = await self._writer.run(self._load)
        self._exchange, self._file = exchange, None
        if self._library.safe:
            self._reader = await open_reader(self._path, BUSY_STORE)
        else:
            _log.warning("single-connection: SQLite is %s", self._library)
            self._reader = self._writer
        self.integrity.opened()
        self.copying.opened(self._writer.raw)
        self.log.opened(self._writer)
        self._pulse.opened(self._clock.steady_us())
        self._tell(exchange.topology)
        self.mending.fault = None
        self.on_open()

    async def check(self) -> str | None:
        """Why the store is not ready, or None: as it has shown lately, or shows now. Answers in `PATIENCE_SECONDS`.

        Whoever asks while a probe is under way waits for that one.
        """
        silence = await self._probed() if self.fault is None else None
        return self.fault or silence

    async def _probed(self) -> str | None:
        """Wait for a probe, where one is due; what to say when it does not come back. One that fails sets `fault`."""
        now_us = self._clock.steady_us()
        if self._writer is None or self._pulse.is_fresh(now_us):
            return None
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._prove(self._writer))
            self._probe_begun_us = now_us
        waited_seconds = (now_us - self._probe_begun_us) / MICROSECONDS
        await asyncio.wait({self._probe}, timeout=max(0.0, PATIENCE_SECONDS - waited_seconds))
        if self._probe.done():
            return None
        waited_seconds = (self._clock.steady_us() - self._probe_begun_us) / MICROSECONDS
        return f"no answer for {waited_seconds:.1f} s: the disk hangs, or another process holds the store"

    def begin_close(self) -> None:
        """The process ends: a store that fails from now on is not opened again."""
        self.mending.end()

    async def close(self) -> None:
        """Close both connections; where all is well, the log is brought into the file before."""
        self.begin_close()
        if self._probe is not None:
            await asyncio.wait({self._probe})
        await self.mending.ended()
        if self.fault is None:
            self.integrity.note(self._last_message_id)
        await self.close_connections(settle=self.fault is None)

    async def apply(self, commands: list[Command]) -> Committed:
        """Decide and commit a group; raises `store-unavailable` when nothing of it was committed."""
        if self.fault is not None or self._writer is None:
            raise self._unavailable()
        try:
            committed = await self._writer.run(lambda connection: self._apply(connection, commands))
        except Problem:
            raise  # a probe has failed since, and has told why
        except Exception as error:
            _log.exception("commit-failed")
            self._fail(error)
            raise self._unavailable() from error
        if committed.topology is not self._topology:
            self._tell(committed.topology)
        return committed

    async def read(self, unit: Callable[[sqlite3.Connection, Names], T]) -> T:
        """Run a reading unit on one snapshot of what is committed, beside the writer where the library allows it.

        Raises `store-unavailable` when the disk does not give what is asked.
        """
        names = self._names
        if self.fault is not None or self._reader is None or names is None:
            raise self._unavailable()
        try:
            return await self._reader.run(lambda connection: on_snapshot(connection, names, unit))
        except (SqliteError, Damage, ThreadEnded) as error:
            _log.exception("read-failed")
            if (is_damage(error) or isinstance(error, ThreadEnded)) and self.fault is None:
                self._fail(error)
                raise self._unavailable() from error
            detail = f"The store cannot be read: {error}. Retry."
            raise Problem("store-unavailable", detail, retry_after=REOPEN_SECONDS) from error

    def committed(self) -> int:
        """The newest message that is committed."""
        return self._last_message_id

    @property
    def page_checksums(self) -> str:
        """`on`, or `off: ` and why."""
        return (self._writer or Database).page_checksums

    def depths(self) -> dict[str, int]:
        """Live deliveries per agent."""
        return {} if self._exchange is None else self._exchange.depths()

    def pruning(self) -> PruningFigures:
        """What retention has done since the store was opened."""
        return PruningFigures() if self._exchange is None else self._exchange.pruning

    def last_seen(self) -> dict[str, int]:
        """When each agent polled last, in wall microseconds; of those that ever did."""
        return {} if self._exchange is None else self._exchange.last_seen()

    def _now(self) -> Now:
        return Now(self._clock.wall_us(), self._clock.steady_us())

    def _load(self, connection: sqlite3.Connection) -> tuple[Exchange, Names]:
        with transaction(connection):
            names = Names.register(connection, (), ())
            connection.execute(SQL["save_proof"], (self._clock.wall_us(),))
            check_live_part(connection)
            snapshot = load_snapshot(connection, names)
            self.integrity.loaded(snapshot.last_message_id)
            topology = Topology.of(snapshot.applied[-1].membership, snapshot.applied[-1].version)
            exchange = Exchange(topology, snapshot, self._policy, self._now())
            if self._file is not None:
                store = SqliteTransaction(connection, names)
                log_file_taken(exchange.apply([TakeFile(self._file)], store, self._now())[0])
                store.flush()
                names = store.names
            self.losses = read_losses(connection, names)
        self._last_message_id = exchange.last_message_id
        self._reserve.opened(exchange.last_message_id, exchange.last_topology)
        return exchange, names

    def _apply(self, connection: sqlite3.Connection, commands: list[Command]) -> Committed:
        exchange, names = self._exchange, self._names
        if exchange is None or names is None:
            raise self._unavailable()
        now, changes = self._now(), connection.total_changes
        with transaction(connection):
            store = SqliteTransaction(connection, names)
            outcomes = exchange.apply(commands, store, now)
            store.flush()
            self._reserve.cover(exchange.last_message_id, exchange.last_topology)
            self.losses = self.losses if store.names is names else read_losses(connection, store.names)
        self._pulse.worked(now.steady_us, wrote=connection.total_changes > changes)
        self._names, self._last_message_id = store.names, exchange.last_message_id
        return Committed(outcomes, exchange.handed_over, exchange.next_due_us(), exchange.topology, exchange.letters())

    def _tell(self, topology: Topology) -> None:
        self._topology = topology
        self.on_topology(topology, () if self._names is None else self._names.agent_ids)

    async def _prove(self, writer: Database) -> None:
        try:
            await writer.run(self._look)
        except Exception as error:
            if self.fault is None and writer is self._writer:
                _log.exception("probe-failed")
                self._fail(error)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Take the write lock, and write where a look is not enough."""
        now = self._now()
        with transaction(connection):
            write = self._pulse.must_write(now.steady_us, at_risk=is_at_risk(self._path.parent))
            if write:
                connection.execute(SQL["save_proof"], (now.wall_us,))
        self._pulse.probed(now.steady_us, wrote=write)

    def _unavailable(self) -> Problem:
        detail = f"The store cannot be written: {self.fault or 'unknown'}. {self.mending.hope}"
        return Problem("store-unavailable", detail, retry_after=REOPEN_SECONDS)

    def _fail(self, error: Exception) -> None:
        self._exchange = None
        self.log.closed()
        self.mending.begin(error)
        self.on_fault()

    def _distrust(self, error: Exception) -> None:
        """Somebody else has proof."""
        if self.fault is None:
            self._fail(error)

    async def close_connections(self, *, settle: bool = False) -> None:
        """Let all files go; with `settle` the log is brought into the file before."""
        self.log.closed()
        await self.copying.closed()
        if settle and self._writer is not None:
            if self._reader is not self._writer and self._reader is not None:
                await self._reader.close()
                self._reader = None
            with contextlib.suppress(Exception):  # what is committed is in the log
                await self._writer.settle()
        for connection in dict.fromkeys((self._reader, self._writer)):  # the reader first; they may be one
            if connection is not None:
                with contextlib.suppress(Exception):
                    await connection.close()
        self._reader = self._writer = None
        self.integrity.closed()
