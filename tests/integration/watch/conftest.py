"""A watcher of a deployment in a folder, with a journal that the test writes."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.trust import Trust
from multiclaw.watch.emergency_files import folders_of
from multiclaw.watch.outbox import Outbox
from multiclaw.watch.progress import Progress
from multiclaw.watch.watcher import Watcher
from multiclaw.watch.ways import Tell, ways_of
from shared.config import Config, load
from shared.journal import Journal
from tests.support.clock import SettableClock
from tests.support.fake_journal import FakeJournal, fake_journal
from tests.support.journal_entries import WrittenJournal

TOPOLOGY = """
[agents.orchestrator]
role = "orchestrator"
[agents.pm]
role = "pm"
[channels.product]
members = ["orchestrator", "pm"]
[watch]
"""
_HOOK = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
data = sys.stdin.read()
with (folder / "told").open("a") as file:
    file.write(data + "\\n")
if (folder / "fails").exists():
    sys.exit(3)
while (folder / "hangs").exists():
    time.sleep(0.02)
"""


class Watched:
    """A deployment, what it wrote to its journal, and what of that was shown and told."""

    def __init__(self, folder: Path, journal: FakeJournal) -> None:
        self.folder = folder
        self.own_journal = journal
        self.written = WrittenJournal()
        self.clock = SettableClock()
        self.clock.wall_seconds = 0.0  # as the times of written entries
        self.shown: list[Alarm] = []
        self.told: list[Alarm] = []
        self.watcher: Watcher | None = None
        (folder / "hook.py").write_text(_HOOK)
        self.configure("agents = false")

    @property
    def state(self) -> Path:
        """Where the watcher keeps its place."""
        return self.config.watch_state

    def configure(self, *settings: str) -> Config:
        """Another `[watch]` table."""
        path = self.folder / "multiclaw.toml"
        path.write_text(TOPOLOGY + "\n".join(settings))
        self.config = load(path, {})
        self.state.mkdir(parents=True, exist_ok=True)
        return self.config

    def hook(self) -> str:
        """The setting of a command that keeps what it is told, and fails or hangs where a test says so."""
        return f"command = {json.dumps([sys.executable, '-S', str(self.folder / 'hook.py'), str(self.folder)])}"

    def hooked(self) -> list[dict]:
        """What the command was told."""
        path = self.folder / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def place(self) -> dict:
        """The saved place."""
        return json.loads((self.state / "place.json").read_text())

    def events(self) -> list[tuple[str, dict]]:
        """What the watcher itself wrote to the journal."""
        found = self.own_journal.entries()
        return [(one["MULTICLAW_EVENT"].decode(), json.loads(one["MULTICLAW_DETAILS"])) for one in found]

    @contextlib.asynccontextmanager
    async def watching(
        self, ways: dict[str, Tell] | None = None, *, by_systemd: bool = True, since_us: int | None = None
    ) -> AsyncIterator[Watcher]:
        """Watch until the block ends, as after a crash: nothing is done at the end."""
        config, clock = self.config, self.clock
        journal = Journal("multiclaw-watch", self.state, clock, self.own_journal.path)
        outbox = Outbox(
            self.state, ways_of(config) if ways is None else ways, journal, clock, config.watch.give_up_hours
        )
        progress = Progress.load(self.state, clock.wall_us())
        if since_us is not None:
            progress.begin_at(since_us)
        watcher = Watcher(Trust(by_systemd=by_systemd, uid=1000), progress, self.shown.append, clock, outbox)
        async with outbox.telling(watcher.begun):
            tasks = [
                asyncio.create_task(watcher.follow_journal(self.written)),
                asyncio.create_task(watcher.follow_files(folders_of(config, by_systemd=False))),
            ]
            try:
                await asyncio.wait_for(watcher.begun.wait(), 10)
                yield watcher
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    def summaries(self) -> list[str]:
        """What was shown."""
        return [alarm.summary for alarm in self.shown]

    async def tell(self, alarm: Alarm) -> None:
        """A way that always succeeds."""
        self.told.append(alarm)


@pytest.fixture
def watched(short_folder: Path) -> Iterator[Watched]:
    """A deployment to be watched."""
    with fake_journal(short_folder / "journal") as journal:
        yield Watched(short_folder, journal)
