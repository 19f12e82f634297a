"""What every peer can do, and how its server is run."""

import asyncio
import contextlib
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from bench.deployment import SINK, TEAM_MEMBERS, CannotRun

Send = Callable[[bytes], Awaitable[object]]
"""Send one message; it returns when the message is on the disk."""


class Taken(NamedTuple):
    """The bodies of messages, and when they were received (`time.perf_counter_ns`), which is before their ack."""

    bodies: Sequence[bytes]
    received_ns: int


Take = Callable[[], Awaitable[Taken]]
"""Take messages, waiting a moment for the first, and acknowledge them; none is no error."""

RECEIVERS: Final[Mapping[str, Sequence[str]]] = {"direct": (SINK,), "team": TEAM_MEMBERS, "probe": ("probe",)}
"""Who gets what is sent to each destination."""

TAKE_MAX: Final = 100
WAIT_SECONDS: Final = 0.2

_READY_SECONDS: Final = 60.0
_KILLED_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05


class Peer(ABC):
    """One system. `durability` says what is set so that it promises what we do; `hint` how to install it. `folder` has
    its files once it was started.
    """

    name: ClassVar[str]
    durability: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self) -> None:
        self.process = Server()
        self.folder = Path()

    @abstractmethod
    def server(self) -> str:
        """The program that is started."""

    @abstractmethod
    async def start(self, folder: Path) -> None:
        """Start the server with its files in `folder`, connect, and make the destinations; raises `CannotRun`."""

    @abstractmethod
    async def restart(self) -> None:
        """After a kill: start the server on the same files, and return at once."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Let go of every connection, whether the server still answers or not; what sends and takes is made anew."""

    def memory_mb(self) -> float:
        """Memory of all that `start` began, in MB of 1,000,000 bytes (`Server.memory_mb`)."""
        return self.process.memory_mb()

    async def stop(self) -> None:
        """Disconnect and end every process that `start` began, however far it came."""
        await self.disconnect()
        await self.process.stop()

    @abstractmethod
    async def sender(self, name: str, to: str) -> Send:
        """What sends for `name` to a destination. It may be called again before the last call has returned."""

    @abstractmethod
    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """What takes for `name`, one of the receivers of a destination, up to `most` messages at a time."""


class Server:
    """The process of a peer, in a process group of its own, which ends with it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        """Start it; what it says goes to `server.log`."""
        with (folder / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, **(env or {})},
            )

    async def kill(self) -> None:
        """SIGKILL to it and all that it started, and wait for their end."""
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()
        async with asyncio.timeout(_KILLED_SECONDS):
            while True:
                if not any(_runs(pid) for pid in pids):
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    def pids(self) -> list[int]:
        """Its process and those that came of it; none when it does not run."""
        if self._process is None or self._process.returncode is not None:
            return []
        found = [self._process.pid]
        for pid in found:  # which grows meanwhile
            found += _children(pid)
        return found

    def memory_mb(self) -> float:
        """Memory of all its processes, in MB of 1,000,000 bytes; a page that some share is counted once (PSS)."""
        return sum(_pss_bytes(pid) for pid in self.pids()) / 1e6

    async def until_ready(self, attempt: Callable[[], Awaitable[object]], folder: Path) -> None:
        """Try until it works; raises `CannotRun` with the server's last words where it does not."""
        fault: Exception | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_SECONDS):
                while self._process is not None and self._process.returncode is None:
                    try:
                        await attempt()
                        return
                    except Exception as error:
                        fault = error
                        await asyncio.sleep(_LOOK_SECONDS)
        said = (folder / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        raise CannotRun(f"the server did not become ready: {fault}: {' / '.join(said)}")

    async def stop(self, signum: int = signal.SIGTERM) -> None:
        """End it and what it started."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _children(pid: int) -> list[int]:
    """What a process has started (proc(5), children), by any of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in path.read_text(encoding="ascii").split()]
    return found


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie, which holds no file (proc(5), stat)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
