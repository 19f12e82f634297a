"""Disks that fail, for real processes."""

import contextlib
import resource
from collections.abc import Iterator

from tests.support.deployment import ServerProcess


@contextlib.contextmanager
def full_disk(process: ServerProcess) -> Iterator[None]:
    """No file takes a byte of this process's, a write-ahead log included: each commit fails as on a full disk."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        if process.returncode is None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
