"""Where emergencies go when there is no journal: a private file of JSON lines beside the store, synced line by line.

It is bounded: a file that would pass `FILE_BYTES_MAX` becomes `emergencies.jsonl.1`, in place of the one before. So the
newest mebibyte is always there, and never more than two.
"""

import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import Final

from shared.durable_files import sync_folder

FILE_NAME: Final = "emergencies.jsonl"
FILE_BYTES_MAX: Final = 1024 * 1024

_OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class EmergencyFile:
    """Appends whole lines. One process writes it: the one that holds the lock of the store in the folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()

    def append(self, line: bytes, patience_seconds: float) -> bool:
        """Write and sync one line; false when that did not succeed, and then nothing of it stays.

        Waits that long at most for another thread's line; a disk that hangs is the caller's to give up on.
        """
        if not self._lock.acquire(timeout=patience_seconds):
            return False
        try:
            self._rotate(len(line) + 1)
            return self._write(line)
        except OSError:
            return False
        finally:
            self._lock.release()

    def _rotate(self, addition: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = self._path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size + addition > FILE_BYTES_MAX:
                self._path.replace(self._path.with_name(FILE_NAME + ".1"))

    def _write(self, line: bytes) -> bool:
        descriptor = os.open(self._path, _OPEN_FLAGS, 0o600)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return False
            whole = _after_torn(descriptor, found.st_size) + line + b"\n"
            try:
                if os.write(descriptor, whole) == len(whole):
                    os.fsync(descriptor)
                    if not found.st_size:
                        sync_folder(self._path.parent)
                    return True
            except OSError:
                pass
            os.ftruncate(descriptor, found.st_size)
            return False
        finally:
            os.close(descriptor)


def _after_torn(descriptor: int, size: int) -> bytes:
    """What must come first, so that a line that a crash tore does not spoil this one."""
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
