"""What every peer can do, and how its server is run."""

import asyncio
import contextlib
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from bench.deployment import SINK, TEAM_MEMBERS, CannotRun

Send = Callable[[bytes], Awaitable[object]]
"""Send one message; it returns when the message is on the disk."""

Take = Callable[[], Awaitable[Sequence[bytes]]]
"""Take up to 100 messages, waiting a moment for the first, and acknowledge them; it returns their bodies."""

RECEIVERS: Final[Mapping[str, Sequence[str]]] = {"direct": (SINK,), "team": TEAM_MEMBERS}
"""Who gets what is sent to each destination."""

TAKE_MAX: Final = 100
WAIT_SECONDS: Final = 0.2

_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05


class Peer(ABC):
    """One system. `durability` says what is set so that it promises what we do; `hint` how to install it."""

    name: ClassVar[str]
    durability: ClassVar[str]
    hint: ClassVar[str]

    @abstractmethod
    def server(self) -> str:
        """The program that is started."""

    @abstractmethod
    async def start(self, folder: Path) -> None:
        """Start the server with its files in `folder`, connect, and make the destinations; raises `CannotRun`."""

    @abstractmethod
    async def stop(self) -> None:
        """Disconnect and end every process that `start` began, however far it came."""

    @abstractmethod
    async def sender(self, name: str, to: str) -> Send:
        """What sends for `name` to a destination. It may be called again before the last call has returned."""

    @abstractmethod
    async def receiver(self, name: str, of: str) -> Take:
        """What takes for `name`, one of the receivers of a destination."""


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


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
