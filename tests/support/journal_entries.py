"""Entries as journald would give them, and a journal that a test writes."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from multiclaw.watch.core.entry import JournalEntry, Place
from multiclaw.watch.core.resume import Kept, Resumption, resume
from multiclaw.watch.core.trust import MESSAGE_IDS
from multiclaw.watch.journal_reader import JournalTrouble
from shared.journal_events import EMERGENCY

BOOT = "b" * 32
SIDECAR = "multiclaw-sidecar@pm.service"


def place(number: int, *, file: str = "f" * 32) -> Place:
    """The place of entry `number` in a journal; `number` seconds after the epoch."""
    us = number * 1_000_000
    return Place(f"s={file};i={number:x};b={BOOT};m={us:x};t={us:x};x={number:x}", us)


def entry(number: int = 1, **fields: str | list[str] | None) -> JournalEntry:
    """An emergency of pm, written by its sidecar; fields replace what it has, None removes."""
    whole = {
        "MESSAGE": f"help {number}",
        "MESSAGE_ID": EMERGENCY.message_id,
        "PRIORITY": "2",
        "MULTICLAW_EVENT": EMERGENCY.name,
        "MULTICLAW_AGENT": "pm",
        "MULTICLAW_KIND": "stuck",
        "MULTICLAW_DETAILS": '{"n":1}',
        "_UID": "61001",
        "_PID": "77",
        "_SYSTEMD_UNIT": SIDECAR,
        **fields,
    }
    return JournalEntry(place(number), {name: value for name, value in whole.items() if value is not None})


class WrittenJournal:
    """Stands in for `JournalReader`: what is in `entries` is there, and `vacuum` removes from the front."""

    def __init__(self, entries: Sequence[JournalEntry] = ()) -> None:
        self.entries = list(entries)
        self.unreadable = 0
        self.began_after: Place | None = None
        self.opened = 0
        self.openable = True
        self.faults = 0
        self.closed: list[Path] = []
        self._next = 0
        self._news = asyncio.Event()

    def write(self, *entries: JournalEntry) -> None:
        """Add entries, and wake who waits."""
        self.entries += entries
        self._news.set()

    def vacuum(self, count: int) -> None:
        """Remove the oldest."""
        self.entries = self.entries[count:]
        self._next = max(0, self._next - count)

    async def open(self, last: Place | None, since_us: int | None) -> Resumption:
        """As `JournalReader.open`."""
        if not self.openable:
            raise JournalTrouble("as the test wants it")
        self.opened += 1
        places = [one.place for one in self.entries]
        self.began_after = None
        if last is None:
            self._next = sum(one.time_us < since_us for one in places) if since_us is not None else len(places)
            self.began_after = places[-1] if places and since_us is None else None
            return Resumption("after", gap=False)
        found = next((n for n, one in enumerate(places) if one.identity == last.identity), None)
        kept = Kept(places[0], places[-1]) if places else Kept(None, None)
        resumption = resume(last, found=found is not None, kept=kept)
        self._next = 0 if found is None else found + 1
        return resumption

    async def read(self, entries_max: int) -> list[JournalEntry]:
        """As `JournalReader.read`."""
        found: list[JournalEntry] = []
        while self._next < len(self.entries) and len(found) < entries_max:
            one = self.entries[self._next]
            self._next += 1
            found += [one] if set(one.all("MESSAGE_ID")) & set(MESSAGE_IDS) else []
        return found

    def closed_files(self) -> list[Path]:
        """As `JournalReader.closed_files`."""
        return self.closed

    async def newest(self) -> Place | None:
        """As `JournalReader.newest`."""
        return self.entries[-1].place if self.entries else None

    async def wait(self, seconds: float) -> None:
        """As `JournalReader.wait`; raises as often as `faults` says."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        if self.faults:
            self.faults -= 1
            raise JournalTrouble("as the test wants it")
