"""A folder in which names come and go: the kernel tells of it (inotify(7)), so that nobody has to look.

Where it does not, because the folder is not there yet or this user has as many watches as it may, a wait ends often
enough to look.
"""

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final

_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_ONLYDIR: Final = 0x1000000
"""Of <sys/inotify.h>; the flags of `inotify_init1` are those of open(2)."""

_EVENTS_BYTES: Final = 4_096

LOOK_SECONDS: Final = 0.1
"""How long a wait may last without a watch."""

SURE_SECONDS: Final = 5.0
"""How long it may last with one: the folder itself may be replaced, and then its watch is silent."""


class FolderWatch:
    """`open` it inside the event loop; `close` it after use. Both tolerate being called twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = asyncio.Event()
        self._descriptor: int | None = None

    def open(self) -> None:
        """Hear of what comes and goes from now on, if that can be."""
        if self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor = _watch(self._folder)
                asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Hear no more. It takes the kernel milliseconds: not for every wait."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    async def wait(self, seconds_max: float) -> None:
        """Return when a name has come or gone, or after so long at most; whoever waits looks then."""
        longest = LOOK_SECONDS if self._descriptor is None else SURE_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds_max, longest)):
                await self._changed.wait()
        self._changed.clear()

    def _read(self) -> None:
        if self._descriptor is not None:
            os.read(self._descriptor, _EVENTS_BYTES)
        self._changed.set()


def _watch(folder: Path) -> int:
    """A descriptor that is readable when a name in the folder has come or gone. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    events = _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_ONLYDIR
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), events) < 0:
        error = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(error, "inotify_add_watch")
    return descriptor
