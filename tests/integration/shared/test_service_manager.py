"""What systemd is told, and what it hands over: with a socket in its place, and without one."""

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.config import ConfigurationFault
from shared.service_manager import Notifier, Standing, announced, passed_listener
from tests.support.deployment import until


class Manager:
    """Where systemd would listen."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.heard: list[list[str]] = []

    def told(self, assignment: str) -> int:
        """How often an assignment came."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard.append(self.socket.recv(4096).decode().split("\n"))
        return sum(assignment in lines for lines in self.heard)


@pytest.fixture
def manager(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    path = str(short_folder / "notify")
    listening = Manager(path)
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    yield listening
    listening.socket.close()


async def well() -> Standing:
    return Standing()


async def test_ready_is_said_when_it_is_true(manager: Manager) -> None:
    """Not before there is no reason against it; then at once. Why it is not ready is the status until then."""
    reason: list[str | None] = ["the store\nis not open"]

    async def look() -> Standing:
        return Standing(reason[0])

    async with announced(look):
        await until(lambda: manager.told("STATUS=the store is not open") > 1, "the reason is told")
        assert manager.told("READY=1") == 0
        reason[0] = None
        await until(lambda: manager.told("READY=1") > 0, "ready is said")
        assert manager.told("STOPPING=1") == 0
    assert manager.told("STOPPING=1") == 1


async def test_pings_come_in_time(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a watchdog of half a second, two pings are never as far apart as half of that."""
    monkeypatch.setenv("WATCHDOG_USEC", "500000")
    times: list[float] = []

    async def look() -> Standing:
        times.append(time.monotonic())
        return Standing()

    async with announced(look):
        await until(lambda: manager.told("WATCHDOG=1") >= 6, "six pings")
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 0.25


@pytest.mark.parametrize("trouble", ["stuck", "raises", "never-returns"])
async def test_what_is_stuck_gets_no_pings(manager: Manager, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """Once the look finds it stuck, fails or hangs, the watchdog is not fed; when it is well again, it is."""
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    ill_looks, ill, release = 0, False, asyncio.Event()

    async def look() -> Standing:
        nonlocal ill_looks
        ill_looks += ill
        if ill and trouble == "never-returns":
            await release.wait()
        if ill and trouble == "raises":
            raise RuntimeError("broken")
        return Standing("no answer", stuck=True) if ill else Standing()

    async with announced(look):
        await until(lambda: manager.told("WATCHDOG=1") > 0, "a ping")
        ill, before = True, manager.told("WATCHDOG=1")
        await until(lambda: ill_looks > (5 if trouble != "never-returns" else 0), "it was looked at")
        assert manager.told("WATCHDOG=1") <= before + 1  # one may have been on its way
        ill = False
        release.set()
        await until(lambda: manager.told("WATCHDOG=1") > before + 1, "pings again")


async def test_trouble_that_is_known_is_left_alone(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that says why it is not ready is fed: a restart would not free a full disk."""
    monkeypatch.setenv("WATCHDOG_USEC", "100000")

    async def look() -> Standing:
        return Standing("disk full")

    async with announced(look):
        await until(lambda: manager.told("WATCHDOG=1") > 3, "pings")
    assert manager.told("READY=1") == 0


async def test_a_blocked_loop_sends_no_pings(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pings come from the loop: while it is blocked, none does."""
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    async with announced(well):
        await until(lambda: manager.told("WATCHDOG=1") > 0, "a ping")
        before = manager.told("WATCHDOG=1")
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        assert manager.told("WATCHDOG=1") <= before + 1


@pytest.mark.parametrize(
    "address", [None, "", "relative", "/nowhere/at-all", "@nobody-listens-here", "/etc/passwd", "/" + "x" * 200]
)
async def test_a_manager_that_is_not_there_is_no_trouble(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent, nonsense, abstract or unwritable: the process runs, whatever `NOTIFY_SOCKET` says."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    looked = asyncio.Event()

    async def look() -> Standing:
        looked.set()
        return Standing()

    async with announced(look):
        if Notifier(os.environ).listened_to:
            await asyncio.wait_for(looked.wait(), 5)
    assert Notifier(os.environ).listened_to == (address is not None and address[:1] in {"/", "@"})


def test_an_abstract_manager_hears_us(short_folder: Path) -> None:
    """A name that begins with `@` is in the abstract namespace."""
    name = f"{short_folder.name}-notify"
    listening = Manager("\0" + name)
    Notifier({"NOTIFY_SOCKET": "@" + name}).tell("READY=1")
    assert listening.told("READY=1") == 1
    listening.socket.close()


def test_a_manager_that_no_longer_reads_holds_nobody_up(manager: Manager) -> None:
    """With its queue full a ping is dropped, and the caller goes on."""
    notifier = Notifier(os.environ)
    begin = time.monotonic()
    for _ in range(5_000):
        notifier.tell("WATCHDOG=1")
    assert time.monotonic() - begin < 5
    assert 0 < manager.told("WATCHDOG=1") < 5_000


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "500000"}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({"WATCHDOG_USEC": "-1"}, 0),
    ],
)
def test_the_period_is_read(environ: dict[str, str], seconds: float) -> None:
    """The watchdog is ours only where it is meant for this process, and nonsense is none."""
    assert Notifier(environ).watchdog_seconds == seconds


def hand_over(listener: socket.socket, path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket | None:
    """As systemd does, but at the descriptor the kernel chose: this process has its own third one."""
    monkeypatch.setattr("shared.service_manager._FIRST_DESCRIPTOR", listener.detach())
    return passed_listener(path, {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})


def test_a_socket_is_taken_over(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket that is handed over at the configured path serves, and children do not inherit it."""
    path = short_folder / "door"
    original = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    original.bind(str(path))
    original.listen()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        taken = hand_over(original, path, monkeypatch)
        assert taken is not None
        assert not taken.get_inheritable()
        accepted, _ = taken.accept()
        accepted.close()
        taken.close()


@pytest.mark.parametrize("kind", ["elsewhere", "tcp", "datagram", "not-listening"])
def test_another_socket_is_refused(short_folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A socket that is not the configured one is a fault of the configuration, named with both paths."""
    path = short_folder / "door"
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    original = socket.socket(family, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
    bound = ("127.0.0.1", 0) if kind == "tcp" else str(short_folder / "other" if kind == "elsewhere" else path)
    original.bind(bound)
    if kind in {"elsewhere", "tcp"}:
        original.listen()
    with pytest.raises(ConfigurationFault, match=f"wants one at {path}"):
        hand_over(original, path, monkeypatch)


def test_what_is_not_for_us_is_not_taken(short_folder: Path) -> None:
    """No variable, or another process's: no socket. More than one: a fault."""
    pid = str(os.getpid())
    assert passed_listener(short_folder, {}) is None
    assert passed_listener(short_folder, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}) is None
    with pytest.raises(ConfigurationFault, match="2 sockets"):
        passed_listener(short_folder, {"LISTEN_PID": pid, "LISTEN_FDS": "2"})
