"""All children of a deployment, started together and stopped in order."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Self

from multiclaw.supervisor.child import Child, ChildView, Report, log_path
from multiclaw.supervisor.programs import Program, programs_of
from shared.config import Config
from shared.names import hint

READY_SECONDS: Final = 30.0
"""Promise 10 allows ten seconds for a restart; the rest is for a busy machine."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A child that no restart will help: its name, its exit status, and where it says why (`None`: our stderr)."""

    name: str
    status: int
    log: Path | None


class NotReady(TimeoutError):  # noqa: N818 - a `TimeoutError` that names who is late
    """A child was not ready in time."""


class Supervisor:
    """`async with Supervisor(config_path, config) as supervisor:` runs the deployment while the block runs.

    Children end when this process ends, even by SIGKILL. With `log_folder` each child writes to a file there, else to
    our stderr. `report` is called from the event loop for everything that happens to a child; it must not block.
    The event loop must run in the main thread, since children are tied to the thread that starts them (prctl(2)).
    `config` is what the children were started with last.
    """

    def __init__(
        self,
        config_path: Path,
        config: Config,
        *,
        log_folder: Path | None = None,
        report: Report | None = None,
        programs: Sequence[Program] | None = None,
    ) -> None:
        self.config = config
        self._config_path = config_path.absolute()
        self._log_folder = log_folder
        self._report = report or (lambda _: None)
        chosen = programs_of(self._config_path, config) if programs is None else programs
        self._children = {program.name: self._child_of(program) for program in chosen}
        self._tasks: dict[str, asyncio.Task[int | None]] = {}
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        if self._log_folder is not None:
            self._log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in self._children:
            self._run(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def views(self) -> list[ChildView]:
        """Every child as it is now, in the order of the programs."""
        return [child.view for child in self._children.values()]

    def view(self, name: str) -> ChildView:
        """One child as it is now."""
        return self._child(name).view

    def kill(self, name: str, signum: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one child; it is started again when it ends of it."""
        self._child(name).signal(signum)

    def kill_all(self) -> None:
        """SIGKILL to every child: for a person who will not wait for an orderly stop that is under way."""
        for child in self._children.values():
            child.signal(signal.SIGKILL)

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """While the block runs, the child is not started again. It does not end what runs; combine it with `kill`."""
        child = self._child(name)
        child.hold()
        try:
            yield
        finally:
            child.release()

    async def ready(self, name: str, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until the child answers its health with 200; raises `NotReady`."""
        child = self._child(name)
        try:
            async with asyncio.timeout(timeout_seconds):
                await child.became_ready.wait()
        except TimeoutError as error:
            raise NotReady(f"{name} was not ready within {timeout_seconds:g} s (it is {child.view.state})") from error

    async def all_ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait for every child; raises `NotReady`."""
        await asyncio.gather(*(self.ready(name, timeout_seconds) for name in self._children))

    async def failed(self) -> Failure:
        """Wait for the first child that no restart will help."""
        while True:
            await self._ended.wait()
            self._ended.clear()
            for name, task in self._tasks.items():
                status = task.result() if task.done() else None
                if status is not None:
                    return Failure(name, status, log_path(self._log_folder, name) if self._log_folder else None)

    async def follow(self, config: Config) -> None:
        """The agents have changed: stop the sidecars of those that left, and start those of the new ones."""
        wanted = {program.name: program for program in programs_of(self._config_path, config)}
        self.config = config
        for name in [name for name in self._children if name not in wanted]:
            await self._children[name].stop(self._tasks[name])
            del self._children[name], self._tasks[name]
        for name, program in wanted.items():
            if name not in self._children:
                self._children[name] = self._child_of(program)
                self._run(name)

    async def stop(self) -> None:
        """Stop every child, those of a lower `stop_order` first. Never started or stopped already is fine."""
        running = sorted((self._children[name] for name in self._tasks), key=lambda c: c.program.stop_order)
        for _, children in groupby(running, key=lambda c: c.program.stop_order):
            await asyncio.gather(*(c.stop(self._tasks[c.program.name]) for c in children))

    def _child_of(self, program: Program) -> Child:
        return Child(program, self._log_folder, self._report)

    def _run(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(self._children[name].run(), name=f"supervise {name}")
        self._tasks[name].add_done_callback(lambda _: self._ended.set())

    def _child(self, name: str) -> Child:
        try:
            return self._children[name]
        except KeyError:
            raise ValueError(f"there is no child {name!r}.{hint(name, self._children)}") from None
