"""The keeper of backups: makes one when it is due or asked for, removes old ones, and tells what became of it."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from adapter.broker import Broker
from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.backup_plan import Backup, BackupTimes, surplus
from adapter.core.commands import RaiseAlarm
from adapter.core.policy import Now
from adapter.store.backups import (
    back_up,
    bytes_needed,
    bytes_written,
    list_backups,
    remove_backups,
    remove_partials,
)
from adapter.store.copying import GivenUpError
from adapter.store.engine import Store
from adapter.store.room import NoRoomError
from shared.background import beside
from shared.backups import Backups, BackupState, RunningBackup
from shared.clock import Clock
from shared.database import Damage, Rest, SqliteError
from shared.names import ADAPTER
from shared.problems import Problem
from shared.times import MICROSECONDS, iso

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0
_REASONS: Final[dict[type[Exception], str]] = {
    NoRoomError: "the disk has too little room for it",
    Damage: "the copy is not right",
    OSError: "the disk fails",
    SqliteError: "the disk fails",
}
_EXPECTED: Final = (*_REASONS, GivenUpError, Problem)


class BackupKeeper:
    """Backups of one store. `state` is for people; what fails is an alarm, too."""

    def __init__(self, broker: Broker, store: Store, settings: Backups, folder: Path, clock: Clock) -> None:
        self._broker = broker
        self._store = store
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._times = BackupTimes(int(settings.interval_hours * 3_600 * MICROSECONDS), 0)
        self._asked = asyncio.Event()
        self._size: int | None = None  # of the copy that is being made
        self._newest: Backup | None = None
        self._bytes: int | None = None
        self._seconds: float | None = None
        self._failed_at_us: int | None = None
        self._failure: str | None = None
        self._attempts = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make them while the block lasts; one that is being made when it ends is given up."""
        try:
            await asyncio.to_thread(self._look_around)
        except OSError as error:  # a disk that is not there yet; a backup finds out whether it is
            self._note_failure(error)
        now = Now(self._clock.wall_us(), self._clock.steady_us())
        self._times = BackupTimes.at_start(self._newest, self._times.interval_us, now)
        async with beside(self._watch()):
            yield

    def ask(self) -> BackupState:
        """Make one now, unless one is being made. Its end is seen by the number of attempts."""
        if self._size is None:
            self._size = 0
            self._asked.set()
        return self.state()

    @property
    def troubles(self) -> list[str]:
        """For a human: why there is no new backup, as long as there is none."""
        return [] if self._failure is None else [f"the last backup failed: {self._failure}"]

    def state(self) -> BackupState:
        """What became of them."""
        newest, size = self._newest, self._size
        running = None if size is None else RunningBackup(bytes=min(bytes_written(self._folder), size), of=size)
        return BackupState(
            schedule="on" if self._settings.enabled else "off",
            running=running,
            attempts=self._attempts,
            last_success=None if newest is None else iso(newest.made_at_us),
            file=None if newest is None else str(self._folder / newest.name),
            last_message=None if newest is None else newest.last_message_id,
            bytes=self._bytes,
            seconds=self._seconds,
            last_failure=None if self._failed_at_us is None else iso(self._failed_at_us),
            failure=self._failure,
        )

    def _look_around(self) -> None:
        remove_partials(self._folder)
        found = list_backups(self._folder)
        if found:
            self._newest = found[0]
            self._bytes = (self._folder / found[0].name).stat().st_size

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._asked.wait()
            due = self._settings.enabled and self._times.is_due(self._store.committed(), self._clock.steady_us())
            if self._asked.is_set() or (due and self._store.fault is None):
                self._asked.clear()
                await self._attempt()

    async def _attempt(self) -> None:
        """Make one, and note what became of it."""
        begun_us = self._clock.steady_us()
        try:
            self._size = await self._store.read(lambda connection, _: bytes_needed(connection))
            gone = await self._store.copying.copy(partial(self._make, self._clock.wall_us(), self._size))
        except Exception as error:  # a fault of ours must not end all backups until the next start
            self._note_failure(error)
            await self._tell(error)
        else:
            self._seconds = (self._clock.steady_us() - begun_us) / MICROSECONDS
            self._failure = None
            self._times.made(begun_us)
            name = "" if self._newest is None else self._newest.name
            _log.info("backup-made: %s, in %.1f s; %d old ones were removed", name, self._seconds, gone)
        finally:
            self._size = None
            self._attempts += 1

    def _make(self, at_us: int, size: int, connection: sqlite3.Connection, rest: Rest) -> int:
        """In the copy's thread: a new one, then away with old ones; how many went."""
        made = back_up(connection, self._folder, at_us, size, rest)
        self._bytes = (self._folder / made.name).stat().st_size
        self._newest = made
        old = surplus(list_backups(self._folder), made, self._settings.keep, self._settings.keep_days)
        remove_backups(self._folder, old)
        return len(old)

    def _note_failure(self, error: Exception) -> None:
        self._failed_at_us = self._clock.wall_us()
        self._failure = str(error) or type(error).__name__
        self._times.failed(self._clock.steady_us())
        _log.warning("backup-failed: %s", self._failure, exc_info=None if isinstance(error, _EXPECTED) else error)

    async def _tell(self, error: Exception) -> None:
        """A store that is closed in the middle of it has told of itself."""
        if isinstance(error, (GivenUpError, Problem)):
            return
        reason = next((words for kind, words in _REASONS.items() if isinstance(error, kind)), "a fault of ours")
        with contextlib.suppress(Problem):
            await self._broker.ask(RaiseAlarm(Alarm(AlarmKind.BACKUP, ADAPTER, reason)))
