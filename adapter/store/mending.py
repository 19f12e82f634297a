"""What becomes of a store that has failed: it is opened again until that works, or repaired, or left as it is.

An fsync that failed is never tried again on the same connection: each attempt closes all and reads the disk. A store
that is damaged (`shared/database/damage.py`) is not opened again unless it was repaired without loss
(`adapter/store/ladder.py`): it stays not ready, and its files stay as they are.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from adapter.store.ladder import Ladder
from shared.database import describe_damage, doubt, is_damage

_log = logging.getLogger(__name__)

REOPEN_SECONDS: Final = 1.0
"""Between two attempts."""


async def _told_nobody(_: str) -> None:
    """Before anybody is told of damage."""


class Opening(Protocol):
    """What is mended."""

    async def open(self) -> None:
        """Open, and prove that writing works; raises what SQLite raises."""

    async def close_connections(self) -> None:
        """Let all files go."""


class Mending:
    """Of one store. `fault` says why it is not ready, or is None.

    `on_damage` is told what proves that it is damaged, and `ladder`, where there is one, repairs it then.
    """

    def __init__(self, path: Path, store: Opening) -> None:
        self._path = path
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._damaged = False
        self.fault: str | None = "the store is not open yet"
        self.on_damage: Callable[[str], Awaitable[object]] = _told_nobody
        self.ladder: Ladder | None = None

    @property
    def hope(self) -> str:
        """What whoever is refused may expect."""
        return "The files are kept for a repair." if self._damaged else "Retry; it recovers by itself."

    def begin(self, error: Exception) -> None:
        """It has failed: it is not ready from now on, until it is mended."""
        self._note(error)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._mend(error))

    def end(self) -> None:
        """The process ends: what fails from now on is not opened again."""
        self._closing.set()
        if self.ladder is not None:
            self.ladder.end()

    async def ended(self) -> None:
        """Wait for what is under way, to its end: a connection abandoned half open keeps the process alive."""
        if self._task is not None:
            await self._task

    def _note(self, error: Exception) -> None:
        self._damaged = is_damage(error)
        self.fault = f"{'damaged' if self._damaged else type(error).__name__}: {error}"

    async def _mend(self, error: Exception) -> None:
        if not await self._gave_up(error):
            await self._reopen()

    async def _reopen(self) -> None:
        while not self._closing.is_set():
            try:
                await self._store.close_connections()
                await self._store.open()
            except Exception as error:
                self._note(error)
                _log.error("reopen-failed: %s", self.fault)
                if await self._gave_up(error):
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), REOPEN_SECONDS)
            else:
                _log.warning("store-reopened")
                return

    async def _gave_up(self, error: Exception) -> bool:
        """Whether the store is damaged, beyond the doubt that a failing disk leaves, and could not be repaired."""
        if not self._damaged:
            return False
        await self._store.close_connections()
        doubtful = await asyncio.to_thread(doubt, self._path, error)
        if doubtful is not None:
            self._damaged, self.fault = False, doubtful
            return False
        why = f"damaged: {await asyncio.to_thread(describe_damage, self._path, error)}"
        self.fault = why
        _log.critical("store-damaged: %s", why)
        await self.on_damage(why)
        if self.ladder is not None:
            unrepaired = await self.ladder.repair()
            self._damaged = unrepaired is not None
            self.fault = f"{why}; {unrepaired or 'it is repaired, and is being opened'}"
        return self._damaged
