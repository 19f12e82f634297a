"""Who is told that the store is damaged, and what came of its repair.

A store that is damaged can take no message, so the journal is told at once, and whoever is to call the Human Governor
(`[escalation]`) is told past the inbox where a human must decide. What was repaired is told by an alarm that the new
store holds (`adapter/store/rebuilding.py`), which no crash loses.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from adapter.core.alarms import RULES, AlarmKind
from adapter.core.notice import Notice, retry_seconds
from adapter.notifier import NotToldError, Tell
from adapter.store.ladder import Outcome
from shared.clock import Clock
from shared.journal import Entry, Journal
from shared.journal_events import STORE_DAMAGED, STORE_NOT_REPAIRED, STORE_REPAIRED
from shared.names import ADAPTER, GOVERNOR, direct_channel
from shared.times import iso

_log = logging.getLogger(__name__)

_KIND: Final = "store"
_RULE: Final = RULES[AlarmKind.STORE]
_REASON_CHARS_MAX: Final = 500


class StoreWatch:
    """Tells of one store. `ways` are those of the notifier, save the journal."""

    def __init__(self, journal: Journal, ways: Mapping[str, Tell], clock: Clock) -> None:
        self._journal = journal
        self._ways = {way: tell for way, tell in ways.items() if way != "journal"}
        self._clock = clock
        self._telling: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell while the block lasts, and no longer."""
        try:
            yield
        finally:
            for task in self._telling:
                task.cancel()
            if self._telling:
                await asyncio.wait(self._telling)

    async def damaged(self, why: str) -> None:
        """Proof was found."""
        await self._journal.record(Entry(STORE_DAMAGED, why, _KIND))

    def ended(self, outcome: Outcome) -> None:
        """A repair has come to its end, one way or the other."""
        event = STORE_NOT_REPAIRED if outcome.kept is None else STORE_REPAIRED
        _log.warning("%s: %s", event.name, outcome.words)
        self._start(self._record(Entry(event, outcome.words, _KIND, details=outcome.details)))
        if outcome.kept is None:
            notice = self._notice(outcome.words)
            for tell in self._ways.values():
                self._start(_until_told(lambda tell=tell: tell(notice)))  # type: ignore[misc]

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _record(self, entry: Entry) -> None:
        await self._journal.record(entry)

    def _notice(self, words: str) -> Notice:
        """As the alarm would be told, if there were a store to send it with; it has no place in the inbox."""
        reason = f"it is damaged and not repaired: {words}"[:_REASON_CHARS_MAX]
        summary = _RULE.summary.format(agent=ADAPTER, reason=reason, count=1)
        payload = {
            "summary": summary,
            "agent": ADAPTER,
            "reason": reason,
            "count": 1,
            "since": iso(self._clock.wall_us()),
        }
        envelope = {"sender": ADAPTER, "to": direct_channel(GOVERNOR), "type": _RULE.contract, "payload": payload}
        return Notice(0, _RULE.contract, ADAPTER, summary, envelope)


async def _until_told(tell: Callable[[], Awaitable[object]]) -> None:
    failures = 0
    while True:
        try:
            await tell()
        except NotToldError as error:
            failures += 1
            _log.warning("store-trouble-not-told: %d times in a row: %s", failures, error)
            await asyncio.sleep(retry_seconds(failures))
        else:
            return
