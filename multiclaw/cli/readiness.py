"""`wait-ready`: what agents wait for before they start."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from multiclaw.cli.exits import UNAVAILABLE, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, ConfigPath, load_config
from multiclaw.supervisor import health_of

_PROBE_SECONDS: Final = 0.1


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(wait_ready)


def wait_ready(
    config: ConfigPath = CONFIG_DEFAULT,
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Give up after this long.")] = 30.0,
) -> None:
    """Wait until the adapter is ready: agents start after it."""
    reason = asyncio.run(_wait_ready(load_config(config).adapter_socket, timeout))
    if reason is not None:
        raise Exit(UNAVAILABLE, f"the adapter was not ready within {timeout:g} s: {reason}")


async def _wait_ready(socket: Path, timeout_seconds: float) -> str | None:
    """`None` once the adapter is ready, else the last reason why it was not."""
    end = time.monotonic() + timeout_seconds
    while True:
        health = await health_of(socket)
        if health.ready:
            return None
        if time.monotonic() >= end:
            return health.reason
        await asyncio.sleep(_PROBE_SECONDS)
