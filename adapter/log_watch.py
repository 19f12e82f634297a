"""Looks at the length of the store's log, and calls a human when it cannot be emptied: it would fill the disk."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from adapter.broker import Broker
from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.commands import RaiseAlarm
from adapter.store.log_length import STUCK_BYTES_MAX, LogLength
from shared.background import beside
from shared.names import ADAPTER
from shared.problems import Problem

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0
"""At the full speed of a fast disk a log grows by some 200 MB meanwhile; a look costs the status of one file."""

_MEBIBYTE: Final = 1024 * 1024
_STUCK: Final = (
    f"its log holds more than {STUCK_BYTES_MAX // _MEBIBYTE} MiB that cannot be brought into the file, and grows. "
    "Another process reads the store and does not end, or the disk fails: lsof names who has it open"
)
_OVER: Final = "its log could be emptied again"


class LogWatch:
    """Of one store; two edges, so that a reader that comes and goes is not told of each time."""

    def __init__(self, broker: Broker, log: LogLength) -> None:
        self._broker = broker
        self._log = log
        self._told = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look while the block lasts."""
        async with beside(self._watch()):
            yield

    @property
    def troubles(self) -> list[str]:
        """For a human: that the log is stuck, as long as it is."""
        size = f"{self._log.stuck_bytes // _MEBIBYTE} MiB"
        return [f"the store: {_STUCK}; {size} now"] if self._log.is_stuck else []

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._log.look()
            if self._log.is_stuck != self._told:
                await self._tell(_STUCK if self._log.is_stuck else _OVER)

    async def _tell(self, words: str) -> None:
        """Again with the next look, where the store does not take it."""
        _log.warning("store-log: %s", words)
        with contextlib.suppress(Problem):
            await self._broker.ask(RaiseAlarm(Alarm(AlarmKind.STORE, ADAPTER, words)))
            self._told = not self._told
