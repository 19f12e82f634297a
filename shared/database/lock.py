"""One process per store: a second one is refused and told who holds it."""

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from shared.config import ConfigurationFault

LOCK_PATIENCE_SECONDS: Final = 2.0
"""What a starting process grants its predecessor: a stop takes that long, and `up` may have just been killed."""

_LOCK_RETRY_SECONDS: Final = 0.05


class StoreLock:
    """One process per store, by a kernel lock that dies with its holder.

    `patience_seconds` is for a predecessor that is still ending; a holder that stays raises `ConfigurationFault`.
    """

    def __init__(self, folder: Path, patience_seconds: float = 0.0) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = _open(folder / "lock")
        deadline = time.monotonic() + patience_seconds
        while not self._try():
            if time.monotonic() >= deadline:
                holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
                self.release()
                raise ConfigurationFault(
                    f"the store in {folder} is in use by process {holder or 'unknown'}; stop it first"
                )
            time.sleep(_LOCK_RETRY_SECONDS)
        with contextlib.suppress(OSError):  # a disk that is full or read-only: the lock holds without a name
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the store go."""
        os.close(self._descriptor)


def _open(path: Path) -> int:
    """The file; to be read only where the kernel has made its file system so. It is locked as well by that."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
