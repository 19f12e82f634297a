"""The supervisor with real, tiny children."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import multiclaw.supervisor.child as child_module
from multiclaw.supervisor import Event, NotReady, Program, Supervisor
from shared.config import Agent, Config

SECONDS_MAX = 20.0
"""Deadline of every wait: a tenth of a second is usual, and the cores are shared."""

TINY_CHILD = Path(__file__).with_name("tiny_child.py")


class Stage:
    """A folder, programs in it, and what was reported of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []

    def program(self, name: str, mode: str = "", stop_order: int = 0) -> Program:
        """A tiny child of that name."""
        socket = self.folder / f"{name}.sock"
        command = (sys.executable, "-I", "-S", str(TINY_CHILD), str(socket), str(self.folder / "journal"), mode)
        return Program(name, command, socket, stop_order)

    def supervisor(self, *programs: Program, log_folder: Path | None = None) -> Supervisor:
        """A supervisor of these, whose events are kept here."""
        config = Config(agents={"a": Agent()}, channels={})
        return Supervisor(
            self.folder / "multiclaw.toml",
            config,
            log_folder=log_folder,
            report=self.events.append,
            programs=programs,
        )

    def journal(self) -> list[str]:
        """The names of those that were asked to end, in that order."""
        return (self.folder / "journal").read_text().split()

    def words(self, name: str) -> list[str]:
        """What happened to one child."""
        return [event.what for event in self.events if event.name == name]


@pytest.fixture
def stage(short_folder: Path) -> Stage:
    return Stage(short_folder)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells of."""
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_a_killed_child_is_started_again_and_waited_for(stage):
    """After `kill`, `ready` means the next process, never the one that was killed."""
    async with stage.supervisor(stage.program("one"), stage.program("two")) as supervisor:
        await supervisor.all_ready()
        first, other = supervisor.view("one").pid, supervisor.view("two").pid
        supervisor.kill("one")
        await supervisor.ready("one")
        view = supervisor.view("one")
        assert view.pid not in {None, first}
        assert (view.state, view.restarts) == ("ready", 1)
        assert supervisor.view("two").pid == other
    assert stage.words("one") == ["started", "ready", "ended", "started", "ready", "ended"]


async def test_the_answer_of_another_process_is_not_the_childs(stage):
    """A stranger that still answers at the socket, such as a child of an earlier run, does not make one ready."""
    silent = Program("silent", stage.program("elsewhere").command, stage.program("one").socket)
    async with stage.supervisor(stage.program("one"), silent) as supervisor:
        await supervisor.ready("one")
        await until((stage.folder / "elsewhere.sock").exists)
        with pytest.raises(NotReady):
            await supervisor.ready("silent", timeout_seconds=0.2)


async def test_a_fault_of_the_configuration_ends_the_trying(stage):
    """A child that ends with 78 is named, with its status, and is not started again; the others still run."""
    async with stage.supervisor(stage.program("good"), stage.program("bad", "78")) as supervisor:
        failure = await asyncio.wait_for(supervisor.failed(), SECONDS_MAX)
        assert (failure.name, failure.status) == ("bad", 78)
        await supervisor.ready("good")
        assert supervisor.view("bad").state == "failed"
    assert stage.words("bad") == ["started", "failed"]


async def test_any_other_end_is_tried_again(stage):
    """A child that ends at once with another status is started again and again, and never counts as ready."""
    async with stage.supervisor(stage.program("ill", "3")) as supervisor:
        await until(lambda: supervisor.view("ill").restarts == 2)
        with pytest.raises(NotReady, match=r"ill was not ready within 0\.01 s"):
            await supervisor.ready("ill", timeout_seconds=0.01)
    assert stage.words("ill")[:4] == ["started", "ended"] * 2
    assert {event.status for event in stage.events if event.what == "ended"} == {3}


async def test_children_stop_in_order(stage):
    """Those of a higher `stop_order` get their SIGTERM only when all of a lower one have ended."""
    programs = [stage.program("adapter", stop_order=1), stage.program("s1"), stage.program("s2")]
    async with stage.supervisor(*programs) as supervisor:
        await supervisor.all_ready()
        pids = [view.pid for view in supervisor.views]
    assert stage.journal()[2] == "adapter"
    assert sorted(stage.journal()) == ["adapter", "s1", "s2"]
    assert not any(is_alive(pid) for pid in pids)
    assert [view.state for view in supervisor.views] == ["stopped"] * 3


async def test_a_child_that_ignores_sigterm_is_killed(stage, monkeypatch):
    """Stopping is bounded: SIGKILL follows, and the child was asked first."""
    monkeypatch.setattr(child_module, "STOP_SECONDS", 0.3)
    async with stage.supervisor(stage.program("deaf", "stubborn")) as supervisor:
        await supervisor.ready("deaf")
        pid = supervisor.view("deaf").pid
    assert stage.journal() == ["deaf"]
    assert not is_alive(pid)
    assert stage.events[-1].status == -9


async def test_a_held_child_stays_down_until_released(stage):
    """While held, a killed child is not started again; afterwards it is, at once."""
    async with stage.supervisor(stage.program("one")) as supervisor:
        await supervisor.ready("one")
        with supervisor.held("one"):
            supervisor.kill("one")
            await until(lambda: supervisor.view("one").state == "held")
            assert supervisor.view("one").pid is None
        await supervisor.ready("one")
    assert stage.words("one").count("started") == 2


async def test_stopping_does_not_wait_for_a_held_or_delayed_child(stage):
    """A stop comes through whatever a child is waiting for, and stopping again is harmless."""
    async with stage.supervisor(stage.program("ill", "3"), stage.program("held")) as supervisor:
        await supervisor.ready("held")
        with supervisor.held("held"):
            supervisor.kill("held")
            began = time.monotonic()
            await supervisor.stop()
            await supervisor.stop()
            assert time.monotonic() - began < child_module.STOP_SECONDS


async def test_a_child_writes_to_its_own_log(stage):
    """With a log folder every child has a file there, kept over restarts, which a failure names."""
    log_folder = stage.folder / "state" / "log"
    supervisor = stage.supervisor(stage.program("one"), stage.program("bad", "78"), log_folder=log_folder)
    async with supervisor:
        failure = await asyncio.wait_for(supervisor.failed(), SECONDS_MAX)
        await supervisor.ready("one")
    assert failure.log == log_folder / "bad.log"
    assert "GET /health" in (log_folder / "one.log").read_text()


async def test_a_command_that_cannot_run_is_an_end_like_any_other(stage):
    """A missing interpreter does not take the other children down."""
    missing = Program("missing", ("/nonexistent/python",), stage.folder / "missing.sock")
    async with stage.supervisor(missing, stage.program("good")) as supervisor:
        await supervisor.ready("good")
        with pytest.raises(NotReady):
            await supervisor.ready("missing", timeout_seconds=0.1)
    assert {event.status for event in stage.events if event.name == "missing"} == {127}


async def test_an_unknown_child_is_named_with_the_nearest_known(stage):
    """A typo in a test or a demo is answered, not ignored."""
    async with stage.supervisor(stage.program("adapter")) as supervisor:
        with pytest.raises(ValueError, match="Did you mean 'adapter'"):
            supervisor.kill("adaptor")


async def test_the_children_follow_the_agents(stage, monkeypatch):
    """Those that left are stopped and are no failure, new ones run, and the others are not touched."""
    everyone = {name: stage.program(name) for name in ("adapter", "s1", "s2")}
    config = Config(agents={"b": Agent()}, channels={})
    monkeypatch.setattr("multiclaw.supervisor.supervisor.programs_of", lambda *_: [everyone["adapter"], everyone["s2"]])
    async with stage.supervisor(everyone["adapter"], everyone["s1"]) as supervisor:
        await supervisor.all_ready()
        gone, kept = supervisor.view("s1").pid, supervisor.view("adapter").pid
        failed = asyncio.ensure_future(supervisor.failed())
        await supervisor.follow(config)
        await supervisor.ready("s2")
        assert ([view.name for view in supervisor.views], supervisor.config) == (["adapter", "s2"], config)
        assert not is_alive(gone)
        assert supervisor.view("adapter").pid == kept
        assert not failed.done()
        failed.cancel()
    assert stage.words("adapter")[-1] == "ended"
