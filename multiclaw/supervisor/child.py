"""One child process, started again whenever it ends, until told to stop."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

from multiclaw.supervisor.health import health_of
from multiclaw.supervisor.programs import Program
from multiclaw.supervisor.restarts import Again, Restarts, after_end
from shared.lifecycle import PARENT_VARIABLE

STOP_SECONDS: Final = 5.0
"""What a child has between SIGTERM and SIGKILL."""

_PROBE_SECONDS: Final = 0.05
_LOG_BYTES_MAX: Final = 8 * 1024 * 1024  # days of a development deployment; the file before it is kept too
_CANNOT_START: Final = 127  # what a shell says of a command it cannot run
_HARMLESS: Final = frozenset({signal.SIGSTOP, signal.SIGCONT})

State = Literal["waiting", "starting", "ready", "held", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a child. `status` is its exit status, negative for a signal, as `subprocess` has it."""

    name: str
    what: Literal["started", "ready", "ended", "failed"]
    pid: int | None = None
    status: int | None = None
    delay_seconds: float | None = None


Report = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ChildView:
    """A child as it is now."""

    name: str
    state: State
    pid: int | None
    restarts: int


class Child:
    """Owns one program's life: `run` starts it again and again; the other methods may be called at any time."""

    def __init__(self, program: Program, log_folder: Path | None, report: Report) -> None:
        self.program = program
        self.became_ready = asyncio.Event()
        self._log_folder = log_folder
        self._report = report
        self._state: State = "waiting"
        self._restarts = Restarts()
        self._process: asyncio.subprocess.Process | None = None
        self._doomed = False
        self._stop = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()

    @property
    def view(self) -> ChildView:
        """Name, state, process id and how often it was started again."""
        pid = self._process.pid if self._process else None
        return ChildView(self.program.name, self._state, pid, self._restarts.total)

    async def run(self) -> int | None:
        """Keep it running. Returns its status when that says that no restart will help, `None` once it was stopped."""
        while not self._stop.is_set():
            born = time.monotonic()
            status = await self._live()
            again = after_end(self._restarts, status, time.monotonic() - born)
            if again is None and not self._stop.is_set():
                self._state = "failed"
                self._report(Event(self.program.name, "failed", status=status))
                return status
            await self._pause(status, again)
        self._state = "stopped"
        return None

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal to the process there is now, if any. After a deadly one it does not count as ready."""
        if signum not in _HARMLESS:
            self._doomed = True
            self.became_ready.clear()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signum)

    def hold(self) -> None:
        """Do not start it again until `release`."""
        self._released.clear()

    def release(self) -> None:
        """End a `hold`."""
        self._released.set()

    async def stop(self, running: "asyncio.Task[int | None]") -> None:
        """SIGTERM, then SIGKILL after `STOP_SECONDS`. `running` is the task of `run`. Stopping twice is harmless."""
        self._stop.set()
        self._released.set()
        self.signal(signal.SIGTERM)
        await asyncio.wait([running], timeout=STOP_SECONDS)
        self.signal(signal.SIGKILL)
        await asyncio.wait([running])

    async def _live(self) -> int:
        self._state, self._doomed = "starting", False
        try:
            self._process = await self._spawn()
        except OSError:
            return _CANNOT_START
        self._report(Event(self.program.name, "started", self._process.pid))
        if self._stop.is_set():
            self.signal(signal.SIGTERM)  # `stop` came while the process was being made, and found none
        watch = asyncio.create_task(self._watch(self._process.pid))
        try:
            return await self._process.wait()
        finally:
            watch.cancel()
            self.became_ready.clear()
            self._process = None

    async def _spawn(self) -> asyncio.subprocess.Process:
        # A session of its own: Ctrl-C at the terminal reaches us alone, and we stop the children in order.
        with _log_file(self._log_folder, self.program.name) as log:
            return await asyncio.create_subprocess_exec(
                *self.program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            )

    async def _watch(self, pid: int) -> None:
        """Wait for the process to be ready. The pid tells it from an earlier one that still answers."""
        while True:
            health = await health_of(self.program.socket)
            if health.ready and health.pid == pid and not self._doomed:
                break
            await asyncio.sleep(_PROBE_SECONDS)
        self._state = "ready"
        self.became_ready.set()
        self._report(Event(self.program.name, "ready", pid))

    async def _pause(self, status: int, again: Again | None) -> None:
        delay = again.delay_seconds if again and not self._stop.is_set() else None
        self._report(Event(self.program.name, "ended", status=status, delay_seconds=delay))
        if again is None:
            return
        self._restarts = again.restarts
        self._state = "waiting"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), again.delay_seconds)
        if not self._released.is_set() and not self._stop.is_set():
            self._state = "held"
            await self._released.wait()


@contextlib.contextmanager
def _log_file(folder: Path | None, name: str) -> Iterator[IO[bytes] | None]:
    """Where a child writes: its own file in `folder`, or what we write to ourselves."""
    if folder is None:
        yield None
        return
    path = log_path(folder, name)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
    with path.open("ab") as file:
        yield file


def log_path(folder: Path, name: str) -> Path:
    """The log of the child `name`."""
    return folder / f"{name}.log"
