"""The tail: entries in, alarms out, and how far it has come kept on disk.

A batch is read, judged, printed and put into the spool; then the place is saved; then it is told. A crash at any point
reads the last batch again, and what the spool or the place know of it is recognised.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.delivery import retry_seconds
from multiclaw.watch.core.entry import JournalEntry
from multiclaw.watch.core.trust import Ignored, Trust, judge_line
from multiclaw.watch.emergency_files import Folder
from multiclaw.watch.journal_reader import JournalReader, JournalTrouble
from multiclaw.watch.outbox import Outbox
from multiclaw.watch.progress import Progress
from shared.clock import Clock
from shared.emergency_news import read_news
from shared.journal_events import WATCH_FORGED, WATCH_GAP, JournalEvent
from shared.times import MICROSECONDS, iso

_log = logging.getLogger(__name__)

_BATCH_MAX: Final = 64
_FILES_SECONDS: Final = 2.0
"""How often the processes' own files are looked at: a `stat` for each, and only where there was no journal is more."""

_LOOK_SECONDS: Final = 0.1
"""The longest wait for news before the journal is looked at without. An entry can be read as soon as it is written, but
journald tells of it 250 to 500 ms later, for many at once (the timer of `journal_file_post_change`). A look that finds
nothing takes 40 µs."""

_PLACE_SECONDS: Final = 300.0
"""How often the place is moved on while nothing of ours is written, so that vacuuming what is old looks like no gap."""

_LONG_AGO: Final = -(2**62)
_NEWS_SECONDS: Final = 0.1
_TROUBLE_SHARE: Final = 0.1
"""The journal is tried again ten times as often as a way to tell: after 0.1 s, and up to 6 s."""

_JOURNAL: Final = "journal"
_FILES: Final = "files"


@dataclass(slots=True)
class Counts:
    """Since the start: alarms taken, and entries under our ids that were not believed."""

    alarms: int = 0
    ignored: int = 0


class Watcher:
    """One deployment's tail. `outbox` hands on and remembers; without one, alarms are only shown."""

    def __init__(
        self, trust: Trust, progress: Progress, show: Callable[[Alarm], None], clock: Clock, outbox: Outbox | None
    ) -> None:
        """`show` prints an alarm and raises nothing."""
        self._trust = trust
        self._progress = progress
        self._show = show
        self._clock = clock
        self._outbox = outbox
        self._place_us = clock.steady_us()
        self._unreadable = 0
        self._closed: set[Path] = set()
        self._to_begin = {_JOURNAL, _FILES}
        self.begun = asyncio.Event()
        """Set when what may have been read before a crash was read again; from then on it is safe to tell."""
        self.trouble: str | None = "the journal is being opened"
        self.counts = Counts()

    async def follow_journal(self, reader: JournalReader) -> None:
        """Read until cancelled; what goes wrong is waited for."""
        failures = 0
        while True:
            try:
                await self._open(reader)
                while True:
                    await self._read_on(reader)
                    self.trouble, failures = None, 0
                    await reader.wait(_LOOK_SECONDS)
            except (JournalTrouble, OSError) as error:
                self.trouble = str(error)
                _log.warning("journal-trouble: %s", error)
            except Exception as error:  # a fault of ours must not end the tail, and nobody notice
                self.trouble = f"{type(error).__name__}: {error}"
                _log.exception("journal-trouble")
            failures += 1
            self._progress.from_now = False  # at a first start, what comes before it can be opened is told, too
            self._begin(_JOURNAL)
            await asyncio.sleep(retry_seconds(failures) * _TROUBLE_SHARE)

    async def follow_files(self, folders: Sequence[Folder]) -> None:
        """Look at the processes' own files until cancelled."""
        told: dict[Path, str] = {}
        while True:
            for folder in folders:
                try:
                    await self._look(folder)
                    told.pop(folder.path, None)
                except Exception as error:  # also a fault of ours: the next folder is looked at
                    if told.get(folder.path) != str(error):
                        _log.warning("emergencies-unreadable: %s", error, exc_info=not isinstance(error, OSError))
                        told[folder.path] = str(error)
            self._begin(_FILES)
            await asyncio.sleep(_FILES_SECONDS)

    async def _open(self, reader: JournalReader) -> None:
        progress = self._progress
        last = progress.journal
        resumption = await reader.open(last, None if progress.from_now else progress.floor_us)
        await self._look_for_closed(reader)
        if last is None:
            progress.journal, progress.from_now = reader.began_after, False
            self._save()
        elif resumption.gap:
            details = {"last_seen": iso(last.time_us), "goes_on": resumption.begin}
            await self._record(WATCH_GAP, f"entries after {iso(last.time_us)} may have been removed unseen", details)
            self._place_us = _LONG_AGO  # the next look moves the place to where it can be found again

    async def _look_for_closed(self, reader: JournalReader) -> None:
        """Entries in a journal that is closed to us are not seen. A user by hand sees at least the own ones."""
        for path in set(reader.closed_files()) - self._closed:
            self._closed.add(path)
            words = f"{path} is closed to user {self._trust.uid}, so its entries raise no alarm"
            _log.warning("journal-closed: %s; as root: adduser USER systemd-journal", words)
            if self._trust.by_systemd:
                await self._record(WATCH_GAP, words, {"closed": str(path)})

    async def _read_on(self, reader: JournalReader) -> None:
        """Everything that is there now. Now and then the place moves on to what others wrote."""
        newest = None
        if self._clock.steady_us() - self._place_us > _PLACE_SECONDS * MICROSECONDS:
            newest = await reader.newest()  # before it is waited for and read: then all of ours up to it is taken
            await reader.wait(_NEWS_SECONDS)
        while entries := await reader.read(_BATCH_MAX):
            await self._take([self._judged(entry) for entry in entries])
            self._progress.journal = entries[-1].place
            self._save()
            self._begin(_JOURNAL)
        self._begin(_JOURNAL)
        if reader.unreadable > self._unreadable:
            lost, self._unreadable = reader.unreadable - self._unreadable, reader.unreadable
            await self._record(WATCH_GAP, f"{lost} entries of the journal could not be read", {"unreadable": lost})
        if newest is not None:
            self._progress.journal, self._place_us = newest, self._clock.steady_us()
            self._save()

    def _judged(self, entry: JournalEntry) -> Alarm | Ignored | None:
        """An entry that is more than we can make sense of is passed over: those after it must be read."""
        try:
            return self._trust.judge(entry)
        except Exception:
            _log.exception("entry-not-understood: %s", entry.place.cursor)
            return Ignored("unreadable", "", "", "")

    async def _look(self, folder: Folder) -> None:
        progress, name = self._progress, str(folder.path)
        news = read_news(folder.path, progress.files.get(name))
        if news is None:
            return
        verdicts = [judge_line(line, folder.writer, folder.agent, news.uid) for line in news.lines]
        if name not in progress.files:  # it may hold what was written long before the work began
            verdicts = [one for one in verdicts if isinstance(one, Ignored) or one.time_us >= progress.floor_us]
        await self._take(verdicts)
        progress.files[name] = news.place
        self._save()
        if news.gap:
            await self._record(WATCH_GAP, f"lines of the emergencies in {folder.path} were put away unread", {})

    async def _take(self, verdicts: Iterable[Alarm | Ignored | None]) -> None:
        """Show and keep the alarms that are new; raises `OSError` where they cannot be kept."""
        for verdict in verdicts:
            if isinstance(verdict, Ignored):
                await self._ignore(verdict)
            elif verdict is not None and not self._progress.knows(verdict.id):
                if self._outbox is not None:
                    await self._outbox.put(verdict)
                self._progress.took(verdict.id)
                self.counts.alarms += 1
                self._show(verdict)

    async def _ignore(self, ignored: Ignored) -> None:
        """Count it; of the first one by each user somebody is told. Outside systemd it may be another deployment's."""
        self.counts.ignored += 1
        _log.info("entry-ignored: %s", ignored)
        if ignored.reason == "forged" and self._trust.by_systemd and self._progress.is_first_report(ignored.uid):
            details = {"event": ignored.event, "uid": ignored.uid, "unit": ignored.unit}
            await self._record(WATCH_FORGED, f"user {ignored.uid} wrote an entry that says {ignored.event!r}", details)

    async def _record(self, event: JournalEvent, message: str, details: dict[str, Any]) -> None:
        """An alarm of our own: it is read from the journal like every other one."""
        _log.warning("%s: %s", event.name, message)
        if self._outbox is not None:
            await self._outbox.record(event, message, "", details)

    def _save(self) -> None:
        if self._outbox is not None:
            self._outbox.save(self._progress)

    def _begin(self, part: str) -> None:
        self._to_begin.discard(part)
        if not self._to_begin:
            self.begun.set()
