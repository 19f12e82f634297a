"""How a process starts, says it is ready, and stops."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import uvloop
from aiohttp import web

from shared.config import EXIT_CONFIGURATION, ConfigurationFault
from shared.keys import KeyFault

_log = logging.getLogger(__name__)

_SWITCH_SECONDS: Final = 0.0005
"""How long a thread may hold the interpreter while another waits. The default of 5 ms would add just that to
a commit whenever the event loop is busy; a tenth of a commit is enough."""

_COLLECT_AFTER: Final = 20_000
"""Allocations before the youngest objects are looked through. A request makes hundreds and no cycles; at the default
of 700 the collector would run several times in each group of sends."""

PARENT_VARIABLE: Final = "MULTICLAW_PARENT"
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)

Application = Callable[[], AbstractAsyncContextManager[None]]


def run(name: str, application: Application) -> int:
    """Run `application` until SIGTERM or SIGINT, and give the exit status. A second signal ends at once."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s {name} %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_SECONDS)
    _die_with_parent()
    try:
        uvloop.run(_until_stopped(application))
    except (ConfigurationFault, KeyFault) as fault:
        print(f"{name}: {fault}", file=sys.stderr)
        return EXIT_CONFIGURATION
    return 0


async def _until_stopped(application: Application) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, on_signal)
    starting = asyncio.ensure_future(_serve(application, stop))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await starting


async def _serve(application: Application, stop: asyncio.Event) -> None:
    gc.set_threshold(_COLLECT_AFTER, 20, 50)  # now: an adapter loads what waits, and all of that stays
    async with application():
        gc.freeze()  # what start-up made lives as long as the process: full collections need not walk it
        await stop.wait()


@contextlib.asynccontextmanager
async def serving(server: web.Server) -> AsyncIterator[web.ServerRunner]:
    """A runner for `server` whose open requests get two seconds to end when the block does."""
    runner = web.ServerRunner(server, shutdown_timeout=2.0)
    await runner.setup()
    try:
        yield runner
    finally:
        await runner.cleanup()


def _die_with_parent() -> None:
    """Where `multiclaw up` started us, end when it ends, even by SIGKILL: no orphan keeps a store locked."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)
