"""Every alarm reaches the configured command and the orchestrator, or somebody is told that it did not."""

import asyncio
import json

from multiclaw.watch.core import delivery
from multiclaw.watch.ways import NotTold
from shared.journal_events import WATCH_UNDELIVERED
from shared.times import MICROSECONDS
from tests.support.deployment import until
from tests.support.fake_sidecar import Fails, FakeSidecar
from tests.support.journal_entries import entry


async def test_the_command_gets_the_alarm(watched):
    """As JSON on its standard input; when it is done, nothing is left of it on disk."""
    watched.configure("agents = false", watched.hook())
    async with watched.watching():
        watched.written.write(entry(1))
        await until(lambda: len(watched.hooked()) == 1, "the command is told")
        await until(lambda: not list((watched.state / "pending").iterdir()), "the spool is empty")
    (told,) = watched.hooked()
    assert told == watched.shown[0].document()
    assert told["details"] == {"n": 1}


async def test_a_command_that_hangs_holds_up_neither_tail_nor_agent(watched):
    """While it runs, alarms are shown and told to the orchestrator; past its time it is killed and tried again."""
    watched.configure(watched.hook(), "hook_seconds = 0.5")
    watched.config.paths.run.mkdir()
    (watched.folder / "hangs").touch()
    async with FakeSidecar(watched.config.sidecar_socket("orchestrator")) as sidecar, watched.watching():
        watched.written.write(entry(1))
        await until(lambda: len(watched.hooked()) == 1, "the command hangs")
        watched.written.write(entry(2))
        await sidecar.until(lambda: len(sidecar.sent) == 2)
        assert watched.summaries() == ["help 1", "help 2"]
        await until(lambda: len(watched.hooked()) >= 2, "it is killed")
        (watched.folder / "hangs").unlink()
        await until(lambda: not list((watched.state / "pending").iterdir()), "it is tried again")


async def test_the_orchestrator_gets_it_once(watched):
    """A message under the alarm's id, to itself; after a lost answer and a restart it is the same message."""
    watched.configure()
    watched.config.paths.run.mkdir()
    watched.written.write(entry(1))
    async with FakeSidecar(watched.config.sidecar_socket("orchestrator")) as sidecar:
        for _ in range(2):
            (watched.state / "place.json").unlink(missing_ok=True)
            async with watched.watching(since_us=0):
                await until(lambda: not list((watched.state / "pending").iterdir()), "it is told")
        assert len(sidecar.sent) == 1
        first, second = sidecar.bodies("/v1/messages")
    assert first == second
    assert (first["to"], first["type"]) == ("@orchestrator", "alarm/1")
    assert (first["idempotency_key"], first["payload"]) == (watched.shown[0].id, watched.shown[0].payload())


async def test_a_sidecar_that_is_away_is_waited_for(watched):
    """The alarm stays on disk over a restart of the watcher, and is told when the sidecar is back."""
    watched.configure()
    watched.config.paths.run.mkdir()
    async with watched.watching():
        watched.written.write(entry(1))
        await until(lambda: len(list((watched.state / "pending").iterdir())) == 1, "it is kept")
    async with watched.watching(), FakeSidecar(watched.config.sidecar_socket("orchestrator")) as sidecar:
        await sidecar.until(lambda: len(sidecar.sent) == 1)
    assert list(sidecar.sent) == [watched.shown[0].id]


async def test_what_is_refused_for_good_is_given_up(watched):
    """One entry says so, with the alarm; the next alarm is told."""
    watched.configure()
    watched.config.paths.run.mkdir()
    async with FakeSidecar(watched.config.sidecar_socket("orchestrator")) as sidecar, watched.watching():
        sidecar.fail("/v1/messages", Fails(422, "unknown-contract", retryable=False))
        watched.written.write(entry(1), entry(2))
        await sidecar.until(lambda: len(sidecar.sent) == 1)
        await until(lambda: not list((watched.state / "pending").iterdir()), "both are settled")
    ((event, details),) = watched.events()
    assert (event, details["way"], details["alarm"]["summary"]) == ("watch-undelivered", "agent orchestrator", "help 1")


async def test_a_conflict_means_it_was_told(watched):
    """An earlier version may have told it in other words; nobody is bothered again."""
    watched.configure()
    watched.config.paths.run.mkdir()
    async with FakeSidecar(watched.config.sidecar_socket("orchestrator")) as sidecar, watched.watching():
        sidecar.fail("/v1/messages", Fails(422, "idempotency-conflict", retryable=False))
        watched.written.write(entry(1))
        await until(lambda: len(sidecar.calls) == 1, "it is told")
        await until(lambda: not list((watched.state / "pending").iterdir()), "it is settled")
    assert watched.events() == []


async def test_an_alarm_that_waited_too_long_is_given_up(watched):
    """After `give_up_hours` of failures; what is said about that is not told by the way that failed."""
    watched.configure("agents = false", watched.hook(), "give_up_hours = 1")
    (watched.folder / "fails").touch()
    async with watched.watching():
        watched.written.write(entry(1))
        await until(lambda: len(watched.hooked()) >= 1, "it is tried")
        watched.clock.advance(3_601)
        await until(lambda: not list((watched.state / "pending").iterdir()), "it is given up")
    ((event, details),) = watched.events()
    assert (event, details["way"]) == ("watch-undelivered", "command")
    assert "status 3" in details["reason"]
    said = {"MESSAGE_ID": WATCH_UNDELIVERED.message_id, "MULTICLAW_DETAILS": json.dumps(details)}
    tries = len(watched.hooked())
    async with watched.watching():
        watched.written.write(entry(2, _SYSTEMD_UNIT="multiclaw-watch.service", **said), entry(3))
        await until(lambda: len(watched.hooked()) > tries, "the next alarm is tried")
    assert [alarm.event for alarm in watched.shown[1:]] == ["watch-undelivered", "emergency"]
    assert {one["event"] for one in watched.hooked()} == {"emergency"}


async def test_a_way_that_is_full_gives_up_the_oldest(watched, monkeypatch):
    """The newest are kept, and one entry an hour says so."""
    monkeypatch.setattr(delivery, "PENDING_MAX", 3)

    async def tell(_):
        raise NotTold("closed")

    async with watched.watching({"command": tell}):
        watched.written.write(*[entry(n) for n in range(1, 9)])
        await until(lambda: len(watched.shown) == 8, "all are taken")
    assert len(list((watched.state / "pending").iterdir())) == 3
    assert [details["reason"] for _, details in watched.events()] == ["too many newer alarms wait"]
    assert watched.clock.steady_us() > 3_600 * MICROSECONDS
    watched.told.clear()
    async with watched.watching({"command": watched.tell}):
        await until(lambda: len(watched.told) == 3, "the kept ones are told")
    assert [alarm.summary for alarm in watched.told] == ["help 6", "help 7", "help 8"]


async def test_a_way_that_is_configured_no_more_is_forgotten(watched):
    """What waits only for it goes; a damaged file is kept aside and stops nobody."""

    async def tell(_):
        await asyncio.Event().wait()

    async with watched.watching({"command": tell}):
        watched.written.write(entry(1))
        await until(lambda: len(watched.shown) == 1, "it is taken")
    (watched.state / "pending" / "000000000009-x.json").write_text("{")
    async with watched.watching({"other": watched.tell}):
        watched.written.write(entry(2))
        await until(lambda: len(watched.told) == 1, "the next is told")
    assert [path.name for path in (watched.state / "pending").iterdir()] == ["000000000009-x.damaged"]
