"""A process as a service of systemd: it says when it is ready and that it lives, and takes a socket over.

Spoken directly (sd_notify(3), sd_listen_fds(3)) and without blocking: libsystemd's `sd_notify` waits, with the
interpreter held, where the service manager no longer reads. Outside systemd all of this does nothing.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.background import beside
from shared.config import ConfigurationFault
from shared.times import MICROSECONDS

_log = logging.getLogger(__name__)

_FIRST_DESCRIPTOR: Final = 3  # SD_LISTEN_FDS_START
_PINGS_PER_PERIOD: Final = 4
"""Twice as many as sd_watchdog_enabled(3) asks for: one that comes late by a whole pause is still in time."""

_NOT_READY_SECONDS: Final = 0.1
_STATUS_SECONDS: Final = 5.0
_STATUS_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Standing:
    """How the process is: `reason` says why it is not ready, or is None. `stuck`: it does not even know, and only a
    restart will help. What says why it is not ready is at work on it, and is left alone."""

    reason: str | None = None
    stuck: bool = False


class Notifier:
    """Tells the service manager. A manager that is not there or does not listen is no trouble of ours."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._failed = False
        self.watchdog_seconds = _watchdog_seconds(environ)

    @property
    def listened_to(self) -> bool:
        """Whether there is anybody to tell."""
        return self._address is not None

    def tell(self, *assignments: str) -> None:
        """Send variable assignments in one datagram; what cannot be sent now is not sent."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            if not self._failed:
                _log.warning("notify-failed: %s", error)
            self._failed = True
        else:
            self._failed = False


@asynccontextmanager
async def announced(look: Callable[[], Awaitable[Standing]]) -> AsyncIterator[None]:
    """While the block runs, tell systemd how the process is; `look` is asked on the event loop.

    Ready is said the moment there is no reason against it, and again with every ping, in case it was not heard. The
    watchdog is fed as long as the loop turns and `look` finds nothing stuck. At the end it is said that we stop.
    """
    notifier = Notifier(os.environ)
    if not notifier.listened_to:
        yield
        return
    try:
        async with beside(_tell(notifier, look)):
            yield
    finally:
        notifier.tell("STOPPING=1")


async def _tell(notifier: Notifier, look: Callable[[], Awaitable[Standing]]) -> None:
    ready = False
    pause = notifier.watchdog_seconds / _PINGS_PER_PERIOD if notifier.watchdog_seconds else _STATUS_SECONDS
    while True:
        standing = await _looked(look)
        ready = ready or standing.reason is None
        status = _line(standing.reason or "ready")
        notifier.tell(f"STATUS={status}", *["READY=1"] * ready, *["WATCHDOG=1"] * (not standing.stuck))
        await asyncio.sleep(pause if ready else min(pause, _NOT_READY_SECONDS))


async def _looked(look: Callable[[], Awaitable[Standing]]) -> Standing:
    try:
        return await look()
    except Exception as error:
        _log.exception("look-failed")
        return Standing(f"{type(error).__name__}: {error}", stuck=True)


def passed_listener(path: Path, environ: Mapping[str, str]) -> socket.socket | None:
    """The listening Unix socket at `path` that systemd passed to this process, or None where it passed none.

    Raises `ConfigurationFault` for another socket than the configuration names. Whoever gets it leaves its file alone:
    it is systemd's, and connections wait in it while the service is down.
    """
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if environ.get("LISTEN_FDS") != "1":
        raise ConfigurationFault(f"systemd passed {environ.get('LISTEN_FDS')} sockets; one is wanted, at {path}")
    listener = socket.socket(fileno=_FIRST_DESCRIPTOR)
    listener.set_inheritable(False)
    listener.setblocking(False)
    wanted = (socket.AF_UNIX, socket.SOCK_STREAM, os.fspath(path))
    if (listener.family, listener.type, listener.getsockname()) != wanted or not _listens(listener):
        name = listener.getsockname()
        listener.close()
        raise ConfigurationFault(f"systemd passed a socket at {name!r}, and the configuration wants one at {path}")
    return listener


def _listens(listener: socket.socket) -> bool:
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _address(text: str) -> str | None:
    """The address of `NOTIFY_SOCKET`: a path, or with `@` a name in the abstract namespace."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """The watchdog's period, or 0 where there is none for this process (sd_watchdog_enabled(3))."""
    with contextlib.suppress(ValueError):
        if environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            return max(int(environ.get("WATCHDOG_USEC", "0")), 0) / MICROSECONDS
    return 0.0


def _line(text: str) -> str:
    """A status is one line, and not a long one."""
    return " ".join(text.split())[:_STATUS_CHARS_MAX]
