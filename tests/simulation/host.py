"""A host in virtual time: one wall clock, and the adapter and sidecars of a deployment as processes of it.

A process is a task that runs the real application. Killing one unplugs its disk first and cuts its connections, so
that neither a commit nor an answer leaves it afterwards; then the task is cancelled.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp.connector

import adapter.app
import shared.database.opening
import shared.journal
import shared.lifecycle
import sidecar.app
import sidecar.folder_watch
from shared.clock import Clock
from tests.simulation.disk import Disk, InlineDatabase, current_disk
from tests.support.clock import START_SECONDS
from tests.support.deployment import Deployment

_SERVING = shared.lifecycle.serving
_LOOK_SECONDS = 60.0
"""How often idle sidecars look at the socket file here: ten times a second for days is all this would do."""


@dataclass(eq=False)
class Process:
    """One running application: its task, its disk, and its server's open connections."""

    name: str
    disk: Disk
    task: "asyncio.Task[None] | None" = None
    runners: list[Any] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.task is not None and not self.task.done()

    def cut(self) -> None:
        """End every connection that others have to it, without a word."""
        for runner in self.runners:
            server = runner.server
            for protocol in list(server.connections) if server is not None else ():
                if protocol.transport is not None:
                    protocol.transport.abort()


_current: ContextVar[Process] = ContextVar("current_process")


class Host:
    """The processes of one deployment."""

    def __init__(self, deployment: Deployment, seed: str) -> None:
        self.deployment = deployment
        self.rng = random.Random(seed)
        self.offset_seconds = 0.0
        self.processes: dict[str, Process] = {}

    def wall_seconds(self) -> float:
        """What the host's clock shows."""
        return START_SECONDS + asyncio.get_running_loop().time() + self.offset_seconds

    def clock(self) -> Clock:
        """A clock of a process: the host's wall time, and its own steady time."""
        return Clock(self.wall_seconds, asyncio.get_running_loop().time)

    def start(self, name: str) -> None:
        """Start `adapter` or the sidecar of an agent; one that runs is left alone."""
        if name in self.processes and self.processes[name].running:
            return
        process = Process(name, Disk(random.Random(self.rng.random())))
        self.processes[name] = process
        process.task = asyncio.create_task(self._run(process), name=name)

    def kill(self, name: str) -> None:
        """SIGKILL: from now on nothing of it is seen any more."""
        process = self.processes[name]
        process.disk.unplug()
        process.cut()
        if process.task is not None:
            process.task.cancel()

    async def ended(self, name: str) -> None:
        """Until a killed one is gone."""
        await self._end(self.processes[name])

    async def stop(self, name: str) -> None:
        """SIGTERM."""
        await self._end(self.processes[name])

    async def ready(self, name: str, seconds_max: float = 600.0) -> None:
        """Until it listens."""
        config = self.deployment.config
        path = config.adapter_socket if name == "adapter" else config.sidecar_socket(name)
        async with asyncio.timeout(seconds_max):
            while not path.exists():  # noqa: ASYNC110 - no event tells of a file, and a look costs no real time
                await asyncio.sleep(0.05)

    def _application(self, name: str) -> AbstractAsyncContextManager[None]:
        if name == "adapter":
            return adapter.app.adapter(self.deployment.config)
        return sidecar.app.application(self.deployment.config_path, name)

    async def _run(self, process: Process) -> None:
        current_disk.set(process.disk)
        _current.set(process)
        async with self._application(process.name):
            await asyncio.Event().wait()

    async def _end(self, process: Process) -> None:
        task = process.task
        assert task is not None
        task.cancel()
        await asyncio.wait({task})
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not process.disk.dead:
            raise fault


def _no_watch(_: Path) -> int:
    """In place of the kernel's, of which a user has only so many: a run must not depend on who else has some."""
    raise OSError


async def _at_once(_: float, work: Callable[[], bool]) -> bool:
    """In place of a thread, which virtual time would not wait for."""
    return work()


@contextlib.asynccontextmanager
async def _serving(server: Any) -> AsyncIterator[Any]:
    async with _SERVING(server) as runner:
        _current.get().runners.append(runner)
        yield runner


@contextlib.contextmanager
def simulated(host: Host) -> Iterator[None]:
    """Inside, applications run on this host: its clock, its disks, and chance from its seed."""
    chance = random.Random(host.rng.random())
    replaced: list[tuple[Any, str, Callable[..., Any] | Any]] = [
        (adapter.app, "Clock", host.clock),
        (sidecar.app, "Clock", host.clock),
        (adapter.app, "serving", _serving),
        (sidecar.app, "serving", _serving),
        (shared.database.opening, "Database", InlineDatabase),
        (sidecar.folder_watch, "LOOK_SECONDS", _LOOK_SECONDS),
        (sidecar.folder_watch, "_watch", _no_watch),
        (shared.journal, "send_entry", lambda *_: False),
        (shared.journal, "_within", _at_once),
        (aiohttp.connector, "monotonic", lambda: asyncio.get_running_loop().time()),
        (os, "urandom", chance.randbytes),
        (random, "_urandom", chance.randbytes),
    ]
    random.seed(host.rng.random())
    with contextlib.ExitStack() as stack:
        for place, name, value in replaced:
            stack.enter_context(mock.patch.object(place, name, value))
        yield
