"""Nothing is missed and nothing told twice, over restarts, crashes and vacuuming."""

import asyncio
import json

import pytest

from multiclaw.watch import watcher as watcher_module
from multiclaw.watch.core.trust import Trust
from multiclaw.watch.spool import Spool
from shared.clock import Clock
from shared.emergency_file import EmergencyFile
from shared.emergency_news import read_news
from shared.journal import Entry, Journal
from shared.journal_events import EMERGENCY
from tests.support.deployment import until
from tests.support.journal_entries import entry


async def test_the_first_start_tells_what_comes_from_now_on(watched):
    """Old entries are not told; new ones are, in order, and the place moves with them."""
    watched.written.write(entry(1), entry(2))
    async with watched.watching({"command": watched.tell}):
        watched.written.write(entry(3), entry(4))
        await until(lambda: len(watched.told) == 2, "both are told")
    assert [alarm.summary for alarm in watched.told] == watched.summaries() == ["help 3", "help 4"]
    assert watched.place()["cursor"] == entry(4).place.cursor


async def test_since_tells_older_ones(watched):
    """From that time on, also where there is a place already; what was told before is recognised."""
    watched.written.write(entry(1), entry(2))
    async with watched.watching():
        watched.written.write(entry(3))
        await until(lambda: watched.summaries() == ["help 3"], "it is told")
    async with watched.watching(since_us=2_000_000):
        await until(lambda: len(watched.shown) == 2, "the older one is told")
    assert watched.summaries() == ["help 3", "help 2"]


async def test_what_was_written_meanwhile_is_told_after_a_restart(watched):
    """Once, and what was told before is not told again."""
    async with watched.watching({"command": watched.tell}):
        watched.written.write(entry(1))
        await until(lambda: len(watched.told) == 1, "it is told")
    watched.written.write(entry(2), entry(3))
    async with watched.watching({"command": watched.tell}):
        await until(lambda: len(watched.told) == 3, "the others are told")
    assert [alarm.summary for alarm in watched.told] == ["help 1", "help 2", "help 3"]


async def test_a_journal_that_comes_later_is_read_from_the_start(watched):
    """Where there was none at the first start, nothing of it is older than the watcher."""
    async with watched.watching():
        watched.written.faults = 1
        watched.written.write(entry(5))
        await until(lambda: watched.summaries() == ["help 5"], "it is told")
    assert watched.written.opened == 2


async def test_a_journal_that_cannot_be_opened_at_first_is_read_from_the_start_of_the_watcher(watched):
    """It is at work from its first start on: what is written until the journal opens is told, and nothing older."""
    watched.written.write(entry(1), entry(2))
    watched.clock.wall_seconds = 3.0
    watched.written.openable = False
    async with watched.watching():
        watched.written.write(entry(4))
        watched.written.openable = True
        await until(lambda: watched.shown != [], "it is told")
    assert watched.summaries() == ["help 4"]


@pytest.mark.parametrize("when", ["before-the-place", "after-the-place"])
async def test_a_crash_loses_nothing_and_doubles_nothing(watched, monkeypatch, when):
    """Ended before or after the place is saved, and before it was told, the next process tells each alarm once."""

    def crash(*_):
        raise SystemError("killed")

    async def hang(_):
        await asyncio.Event().wait()

    async with watched.watching({"command": hang}):
        with monkeypatch.context() as patch:
            if when == "before-the-place":
                patch.setattr(watcher_module.Watcher, "_save", crash)
            watched.written.write(entry(1))
            await until(lambda: watched.summaries() == ["help 1"], "it is shown")
    assert (watched.place()["cursor"] is None) == (when == "before-the-place")
    async with watched.watching({"command": watched.tell}):
        watched.written.write(entry(2))
        await until(lambda: len(watched.told) == 2, "both are told")
        await until(lambda: not list((watched.state / "pending").iterdir()), "nothing is left of them")
    assert [alarm.summary for alarm in watched.told] == ["help 1", "help 2"]


async def test_what_is_vacuumed_is_told_of(watched):
    """The watcher goes on with the oldest entry that is kept, and writes an entry of its own about the gap."""
    async with watched.watching():
        watched.written.write(entry(1))
        await until(lambda: watched.summaries() == ["help 1"], "it is told")
    watched.written.write(entry(2), entry(3), entry(4, MESSAGE_ID="0" * 32))
    watched.written.vacuum(2)
    async with watched.watching():
        await until(lambda: watched.summaries() == ["help 1", "help 3"], "the kept one is told")
    watched.written.write(entry(5, MESSAGE_ID="0" * 32))
    watched.written.vacuum(2)
    async with watched.watching():
        await until(
            lambda: watched.place()["cursor"] == entry(5).place.cursor, "the place moves on though nothing is ours"
        )
    async with watched.watching():
        watched.written.write(entry(6))
        await until(lambda: watched.summaries()[2:] == ["help 6"], "the next is told")
    assert [(event, details["goes_on"]) for event, details in watched.events()] == [("watch-gap", "oldest")] * 2


async def test_an_idle_place_moves_on(watched, monkeypatch):
    """Entries of others move the place, so that vacuuming what is old is no gap of ours."""
    monkeypatch.setattr(watcher_module, "_PLACE_SECONDS", -1)
    async with watched.watching():
        watched.written.write(entry(7, MESSAGE_ID="0" * 32))
        watched.written.write(entry(8, MESSAGE_ID="0" * 32))
        await until(lambda: watched.place()["cursor"] == entry(8).place.cursor, "the place moves")
    assert watched.shown == []


async def test_a_place_that_is_damaged_is_kept_and_nothing_is_missed(watched):
    """Work goes on from before the file was written last; what is then told again has its old id."""
    watched.clock.wall_seconds = Clock().wall_us() / 1e6
    async with watched.watching():
        pass
    (watched.state / "place.json").write_text('{"version": 1, "cursor": ')
    now = watched.clock.wall_us() // 1_000_000
    watched.written.write(entry(now - 3_600), entry(now - 5))
    async with watched.watching():
        await until(lambda: watched.summaries() == [f"help {now - 5}"], "the newer one is told")
    assert (watched.state / "place.json.damaged").exists()


async def test_forged_entries_are_ignored_and_reported_once(watched):
    """However many one user writes, one entry of ours says so, over restarts too; another user is told of as well."""
    for start in (0, 10):
        async with watched.watching() as watcher:
            forged = {"_SYSTEMD_UNIT": "session-1.scope", "_UID": "1007"}
            watched.written.write(*[entry(start + n, **forged) for n in range(3)])
            await until(lambda: watcher.counts.ignored == 3, "all are counted")
    async with watched.watching() as watcher:
        watched.written.write(entry(20, _SYSTEMD_UNIT="session-1.scope", _UID="1008"))
        await until(lambda: watcher.counts.ignored == 1, "it is counted")
    assert watched.shown == []
    assert [(event, details["uid"]) for event, details in watched.events()] == [
        ("watch-forged", "1007"),
        ("watch-forged", "1008"),
    ]


async def test_what_nobody_understands_holds_nothing_up(watched, monkeypatch):
    """A fault in judging an entry passes it over; one in reading is waited for, and told in the status."""
    judge = Trust.judge

    def faulty(self, one):
        if one.place == entry(1).place:
            raise KeyError("as the test wants it")
        return judge(self, one)

    monkeypatch.setattr(Trust, "judge", faulty)
    async with watched.watching() as watcher:
        watched.written.write(entry(1), entry(2))
        await until(lambda: watched.summaries() == ["help 2"], "the next is told")
        with monkeypatch.context() as patch:
            patch.setattr(watched.written, "read", lambda _: 1 / 0)
            watched.written.write(entry(3))
            await until(lambda: "ZeroDivisionError" in (watcher.trouble or ""), "it says so")
        await until(lambda: watched.summaries() == ["help 2", "help 3"], "it goes on")
    assert watcher.counts.ignored == 1


async def test_a_journal_that_is_closed_is_told_of_once(watched):
    """Its entries are not seen, so a human hears of it; by hand it is usual, and only logged."""
    watched.written.closed = [watched.folder / "system.journal"]
    for by_systemd in (False, True):
        async with watched.watching(by_systemd=by_systemd):
            watched.written.faults = 1
            watched.written.write(entry(1))
            await until(lambda: watched.written.faults == 0, "it is opened again")
            watched.written.write(entry(2, _UID="1000"))
            await until(lambda: watched.shown and watched.summaries()[-1] == "help 2", "it goes on")
        watched.shown.clear()
        (watched.state / "place.json").unlink()
    assert [(event, "closed" in details) for event, details in watched.events()] == [("watch-gap", True)]


async def test_a_full_disk_is_waited_for(watched, monkeypatch):
    """While nothing can be saved nothing is lost, and it is told when there is room."""
    broken = [True]
    put = Spool.put

    def full(self, *arguments):
        if broken[0]:
            raise OSError(28, "No space left on device")
        put(self, *arguments)

    monkeypatch.setattr(Spool, "put", full)
    async with watched.watching({"command": watched.tell}) as watcher:
        watched.written.write(entry(1))
        await until(lambda: "No space" in (watcher.trouble or ""), "it says what is wrong")
        assert watched.told == []
        broken[0] = False
        await until(lambda: len(watched.told) == 1, "it is told")
    assert watched.summaries() == ["help 1"]


async def test_what_was_written_without_a_journal_is_told(watched):
    """From the file of a sidecar, by the same rules and once, through a restart and when the file is put aside."""
    folder = watched.config.sidecar_state("pm")
    folder.mkdir(parents=True)
    journal = Journal("multiclaw-sidecar", folder, watched.clock, folder / "no-journal")
    assert await journal.record(Entry(EMERGENCY, "first", "k", "pm")) == "file"
    async with watched.watching({"command": watched.tell}):
        await until(lambda: watched.summaries() == ["first"], "it is told")
    await journal.record(Entry(EMERGENCY, "second", "k", "qa"))
    (folder / "emergencies.jsonl").rename(folder / "emergencies.jsonl.1")
    await journal.record(Entry(EMERGENCY, "third", "k", "pm"))
    EmergencyFile(folder).append(b"garbage", 1)
    async with watched.watching({"command": watched.tell}) as watcher:
        await until(lambda: len(watched.told) == 3, "the others are told")
        assert watcher.counts.ignored == 1
    assert [(alarm.summary, alarm.agent) for alarm in watched.told] == [
        ("first", "pm"),
        ("second", "pm"),
        ("third", "pm"),
    ]


async def test_a_link_is_not_followed(watched, monkeypatch):
    """A file of emergencies that is a link elsewhere is not read."""
    monkeypatch.setattr(watcher_module, "_FILES_SECONDS", 0.01)
    folder = watched.config.sidecar_state("pm")
    folder.mkdir(parents=True)
    (watched.folder / "secret").write_text(json.dumps({"message_id": EMERGENCY.message_id}) + "\n")
    (folder / "emergencies.jsonl").symlink_to(watched.folder / "secret")
    assert read_news(folder, None) is None
