"""`up`: the adapter and all sidecars as real child processes, for development."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from multiclaw.cli.exits import Exit
from multiclaw.cli.live import refresh
from multiclaw.cli.options import CONFIG_DEFAULT, ConfigPath, load_config
from multiclaw.supervisor import Event, Failure, Supervisor
from shared.config import Config, ConfigurationFault, load

_LOOK_SECONDS: Final = 0.5
_TAIL_BYTES: Final = 4_096


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(up)


def up(
    config: ConfigPath = CONFIG_DEFAULT,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines even on a terminal.")] = False,
) -> None:
    """Run the adapter and all sidecars, and restart what dies; SIGTERM or Ctrl-C ends all of them in order.

    On a terminal there is a live table, and the processes write to log files in the state folder; elsewhere events are
    plain lines on standard output, and the processes write to standard error.
    """
    live = sys.stdout.isatty() and not plain
    failure = asyncio.run(_up(config, load_config(config), live=live))
    if failure is not None:
        raise Exit(failure.status, _explain(failure))


async def _up(config_path: Path, config: Config, *, live: bool) -> Failure | None:
    supervisor = Supervisor(
        config_path,
        config,
        log_folder=config.paths.state / "log" if live else None,
        report=None if live else _print_event,
    )
    with _signals(supervisor) as stop:
        view = _beside(refresh(supervisor)) if live else contextlib.nullcontext()
        async with supervisor, _beside(_follow(config_path, supervisor)), view:
            return await _until(stop, supervisor)


async def _until(stop: asyncio.Event, supervisor: Supervisor) -> Failure | None:
    """Wait for a signal to stop (`None`), or for a child that no restart will help."""
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(supervisor.failed())
    try:
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        return None if stopped.done() else failed.result()
    finally:
        stopped.cancel()
        failed.cancel()


@contextlib.contextmanager
def _signals(supervisor: Supervisor) -> Iterator[asyncio.Event]:
    """The first SIGTERM, Ctrl-C or hang-up sets the event; a second one is from somebody who will not wait."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            supervisor.kill_all()
        stop.set()

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, on_signal)
    yield stop


def _print_event(event: Event) -> None:
    words = [event.what, event.name]
    if event.pid is not None:
        words.append(f"pid={event.pid}")
    if event.status is not None:
        words.append(f"status={event.status}")
    if event.delay_seconds is not None:
        words.append(f"restart_in={event.delay_seconds:g}s")
    print(*words, flush=True)


async def _follow(config_path: Path, supervisor: Supervisor) -> None:
    """Look at the file for ever: when its agents have changed, so have the sidecars that run."""
    seen = _changed_at(config_path)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = _changed_at(config_path)
        if now == seen:
            continue
        seen = now
        try:
            config = load(config_path)
        except ConfigurationFault as fault:
            print(f"not followed: {fault}", file=sys.stderr, flush=True)
            continue
        if config.agents != supervisor.config.agents:
            await supervisor.follow(config)


def _changed_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have it done while the block runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _explain(failure: Failure) -> str:
    reason = f"{failure.name} cannot run with this configuration (status {failure.status})"
    if failure.log is None:
        return f"{reason}; its own words are above"
    return f"{reason}: {_last_line(failure.log)}\n(from {failure.log})"


def _last_line(log: Path) -> str:
    """The last thing a process said, which is its reason."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else "it said nothing"
