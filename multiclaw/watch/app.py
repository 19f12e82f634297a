"""Wiring, in one place: a configuration in, a running watcher out."""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from multiclaw.units import by_systemd
from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.trust import MESSAGE_IDS, Trust
from multiclaw.watch.emergency_files import folders_of
from multiclaw.watch.journal_reader import JournalReader, is_there
from multiclaw.watch.outbox import Outbox
from multiclaw.watch.progress import Progress
from multiclaw.watch.watcher import Watcher
from multiclaw.watch.ways import ways_of
from shared.background import beside
from shared.clock import Clock
from shared.config import Config, ConfigurationFault
from shared.database.lock import StoreLock
from shared.journal import Journal
from shared.service_manager import Standing, announced

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a watcher: from which time on (None: where the last one ended, at first what comes now), and
    whether it tells and remembers, or only shows."""

    since_us: int | None = None
    only_show: bool = False


@asynccontextmanager
async def watching(config: Config, wish: Wish, show: Callable[[Alarm], None]) -> AsyncIterator[Watcher]:
    """Watch until the block ends. Raises `ConfigurationFault`, or `JournalUnavailable` where libsystemd is missing."""
    clock, folder = Clock(), config.watch_state
    reader = JournalReader(MESSAGE_IDS)
    if not is_there():
        _log.warning("no-journal: this host keeps none now; only what processes wrote to their own files is seen")
    async with AsyncExitStack() as stack:
        outbox, progress = None, Progress(clock.wall_us(), from_now=True)
        if not wish.only_show:
            stack.callback(_locked(folder).release)
            journal = Journal("multiclaw-watch", folder, clock)
            outbox, progress = _kept(config, folder, journal, clock)
        if wish.since_us is not None:
            progress.begin_at(wish.since_us)
        managed = by_systemd(config)
        watcher = Watcher(Trust(managed, os.geteuid()), progress, show, clock, outbox)
        if outbox is not None:
            await stack.enter_async_context(outbox.telling(watcher.begun))
        files = watcher.follow_files(folders_of(config, by_systemd=managed))
        await stack.enter_async_context(beside(watcher.follow_journal(reader), files))
        await stack.enter_async_context(announced(_Standing(watcher).look))
        yield watcher


def _kept(config: Config, folder: Path, journal: Journal, clock: Clock) -> tuple[Outbox, Progress]:
    try:
        outbox = Outbox(folder, ways_of(config), journal, clock, config.watch.give_up_hours)
        return outbox, Progress.load(folder, clock.wall_us())
    except OSError as error:
        raise ConfigurationFault(f"the watcher cannot keep its place: {error}") from error


def _locked(folder: Path) -> StoreLock:
    try:
        return StoreLock(folder)
    except OSError as error:
        raise ConfigurationFault(f"the watcher cannot keep its place: {error}") from error
    except ConfigurationFault as fault:
        raise ConfigurationFault(f"{fault}; to look on beside it, add: --only-show") from fault


class _Standing:
    """Ready once the tail has begun, also in a trouble that lasts: it may be what an alarm waits to tell."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._was_ready = False

    async def look(self) -> Standing:
        """For systemd."""
        if self._watcher.begun.is_set() and not self._was_ready:
            self._was_ready = True
            return Standing()
        return Standing(self._watcher.trouble)
