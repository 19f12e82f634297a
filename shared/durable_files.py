"""Small files and names that a power cut must not take: a file's bytes are safe once it is synced, its name once its
folder is (fsync(2))."""

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable. Raises `OSError`."""
    _sync(path, os.O_RDONLY | os.O_CLOEXEC)


def sync_folder(folder: Path) -> None:
    """Make what was made, renamed and removed in a folder durable. Raises `OSError`."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def write_durably(path: Path, content: bytes) -> None:
    """Put a small private file there, whole or not at all, in place of what is there. Raises `OSError`.

    For the one process that writes it.
    """
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
