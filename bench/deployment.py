"""A deployment to measure: a folder, real processes, and what the kernel says of them."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from multiclaw.interpreter import python_module
from multiclaw.supervisor import health_of
from shared.config import Config, load
from shared.keys import create_key, create_private
from shared.lifecycle import PARENT_VARIABLE
from shared.names import ADAPTER, GOVERNOR

SENDERS: Final = ("s1", "s2", "s3", "s4", "s5", "s6")
ORCHESTRATOR: Final = SENDERS[5]
"""The sender that also has this role."""

SINK: Final = "sink"
"""Receives what the senders send; it has no part in a channel."""

TEAM: Final = "team"
TEAM_MEMBERS: Final = SENDERS[:5]
"""The channel of broadcasts: five receivers, the sender being one of them."""

_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_STAMP_CHARS: Final = len("2027-01-15 09:00:00,123")
"""What a line of a log begins with, in local time."""

_PROBE_SECONDS: Final = 0.01
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")

# A backlog must fit a queue and outlive the run: a lease that lapsed would measure redelivery. The rates are such that
# no sender meets them: what is measured is the machine, not a limit.
_CONFIGURATION: Final = """\
[deployment]
name = "bench"

[limits]
queue_max = 10000000
outbox_critical_reserve = 0
lease_seconds = 3600

[rates.normal]
per_second = 1000000
burst = 100000000
"""


_ROLE: Final = f"""
[agents.{ORCHESTRATOR}]
role = "orchestrator"
"""


class CannotRun(Exception):  # noqa: N818 - says why there is no measurement
    """A process of the deployment did not start."""


class Deployment:
    """The adapter and, where asked for, a sidecar per agent. `async with` starts all of it and leaves nothing."""

    def __init__(self, parent: Path | None, *, sidecars: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mcb-", dir=parent)).absolute()
        self._config_path = _make(self._folder)
        self.config: Config = load(self._config_path, environ={})
        self._programs = {ADAPTER: python_module("adapter", self._config_path)}
        if sidecars:
            for agent in self.config.agents:
                self._programs[agent] = python_module("sidecar", self._config_path, "--agent", agent)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> Self:
        try:
            await self.start(ADAPTER)
            await asyncio.gather(*(self.start(name) for name in self._programs if name != ADAPTER))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start a process and wait until it is ready; raises `CannotRun` with its last words.

        `settings` are variables that override the configuration.
        """
        await self.spawn(name, settings)
        process, socket = self._processes[name], self._socket(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_SECONDS):
                while process.returncode is None:
                    if (await health_of(socket)).ready:
                        return
                    await asyncio.sleep(_PROBE_SECONDS)
        raise CannotRun(f"{name} did not become ready: {self._last_words(name)}")

    async def spawn(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start a process and return at once."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MULTICLAW_")}
        with self._log(name).open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *self._programs[name],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**environ, PARENT_VARIABLE: str(os.getpid()), **(settings or {})},
            )

    async def kill_adapter(self) -> None:
        """SIGKILL, and wait for its end."""
        self._processes[ADAPTER].kill()
        await self._processes[ADAPTER].wait()

    async def restart_adapter(self, settings: Mapping[str, str], between: Callable[[Path], Awaitable[None]]) -> None:
        """Stop it, do something with its store, and start it again."""
        await self._stop(ADAPTER)
        await between(self.config.adapter_store)
        await self.start(ADAPTER, settings)

    async def check_store(self) -> None:
        """The whole check of the store while nobody has it open; raises `CannotRun` with what it finds."""
        await self._verb("check")

    async def back_up(self) -> None:
        """`multiclaw backup`, while the adapter runs; raises `CannotRun` with its last words."""
        await self._verb("backup")

    async def _verb(self, name: str) -> None:
        command = (sys.executable, "-P", "-c", "from multiclaw.cli import main; main()")
        verb = await asyncio.create_subprocess_exec(
            *command,
            *(name, "--config", str(self._config_path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await verb.communicate()
        if verb.returncode:
            raise CannotRun(f"multiclaw {name} failed: {said.decode(errors='replace')}")

    async def stop(self) -> None:
        """Stop everything, sidecars first; the folder stays until the block ends."""
        await asyncio.gather(*(self._stop(name) for name in self._processes if name != ADAPTER))
        if ADAPTER in self._processes:
            await self._stop(ADAPTER)

    @property
    def has_sidecars(self) -> bool:
        """Whether agents have sidecars here."""
        return len(self._programs) > 1

    def store_bytes(self) -> int:
        """The database and its WAL on the disk, in allocated bytes."""
        store = self.config.adapter_store
        files = (store, store.with_name(store.name + "-wal"))
        return sum(file.stat().st_blocks * 512 for file in files if file.exists())  # stat(2): units of 512 bytes

    def cpu_seconds(self) -> tuple[float, float]:
        """Processor time used so far by the adapter, and by all sidecars together."""
        sidecars = sum(_cpu_seconds(p.pid) for name, p in self._processes.items() if name != ADAPTER)
        return _cpu_seconds(self._processes[ADAPTER].pid), sidecars

    def logged(self, name: str, event: str) -> list[float]:
        """When a process wrote of an event to its log, in seconds since the epoch."""
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return [datetime.fromisoformat(line[:_STAMP_CHARS]).timestamp() for line in lines if f": {event}: " in line]

    def rss_mb(self, name: str) -> float:
        """Resident memory of a process, in MB of 1,000,000 bytes."""
        status = Path(f"/proc/{self._processes[name].pid}/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024 / 1e6

    def _socket(self, name: str) -> Path:
        return self.config.adapter_socket if name == ADAPTER else self.config.sidecar_socket(name)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    async def _stop(self, name: str) -> None:
        process = self._processes[name]
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def _make(folder: Path) -> Path:
    agents = (*SENDERS, SINK)
    path = folder / "multiclaw.toml"
    tables = "".join(f"\n[agents.{agent}]\n" for agent in agents if agent != ORCHESTRATOR) + _ROLE
    members = ", ".join(f'"{agent}"' for agent in TEAM_MEMBERS)
    path.write_text(f"{_CONFIGURATION}{tables}\n[channels.{TEAM}]\nmembers = [{members}]\n", encoding="utf-8")
    config = load(path, environ={})
    config.paths.keys.mkdir(mode=0o700)
    config.paths.contracts.mkdir(mode=0o700)
    create_key(config.paths.keys, GOVERNOR)
    for agent in agents:
        create_key(config.paths.keys, agent)
        config.sidecar_state(agent).mkdir(mode=0o700, parents=True)
        create_private(config.token_file(agent), os.urandom(16).hex())
    return path


def _cpu_seconds(pid: int) -> float:
    """User and system time (proc(5), fields 14 and 15, counted after the name, which may hold blanks)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
