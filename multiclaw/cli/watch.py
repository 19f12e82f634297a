"""`watch`: the alarms of a deployment as they come, shown and handed on."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final

import typer

from multiclaw.cli.acting import printable
from multiclaw.cli.exits import FAILED, UNAVAILABLE, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from multiclaw.watch.app import Wish, watching
from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.journal_reader import JournalUnavailable
from shared.config import Config
from shared.lifecycle import run
from shared.times import MICROSECONDS, from_iso

_AGO: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(watch)


def watch(
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From an RFC 3339 time on, or so long ago, such as 90m or 2d.")
    ] = None,
    only_show: Annotated[
        bool, typer.Option("--only-show", help="Tell nobody and remember nothing: to look on beside a watcher.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing, for a service.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Follow the journal's alarms of this deployment, without the adapter: print each, call the configured command, and
    tell the orchestrators. Goes on where the last one ended; Ctrl-C ends it."""
    loaded = load_config(config)
    wish = Wish(moment(since), only_show)
    printer = _Printer(as_json=as_json, quiet=quiet)
    try:
        status = run("watch", lambda: _application(loaded, wish, printer.show))
    except JournalUnavailable as error:
        raise Exit(UNAVAILABLE, str(error)) from error
    raise typer.Exit(FAILED if printer.unread else status)


@asynccontextmanager
async def _application(config: Config, wish: Wish, show: Callable[[Alarm], None]) -> AsyncIterator[None]:
    async with watching(config, wish, show):
        yield


def moment(text: str | None) -> int | None:
    """Microseconds since the epoch of a time, or of so long ago; ends the verb for anything else."""
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * MICROSECONDS)
    try:
        return from_iso(text)
    except ValueError as error:
        raise typer.BadParameter(f"--since {text}: {error}; or say how long ago, such as 90m or 2d") from error


class _Printer:
    """Prints alarms, one a line. Once nobody reads them any more, `unread` is set and the process is stopped."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self.unread = False

    def show(self, alarm: Alarm) -> None:
        if self._quiet:
            return
        try:
            print(json.dumps(alarm.document()) if self._as_json else printable(alarm.line()), flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.unread = self._quiet = True
            signal.raise_signal(signal.SIGTERM)
