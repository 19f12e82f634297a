"""A disk that fails in a way of one's choice while a process runs, and works again (`diskshim.c`)."""

import contextlib
import mmap
import struct
from collections.abc import Iterator
from enum import IntFlag
from pathlib import Path

from tests.support.diskshim import watched

_PAGE = struct.Struct("=IiI52s")


class Fails(IntFlag):
    """Operations, as in `diskshim.c`. `HALF` lets each write take half of its bytes."""

    WRITE = 1
    SYNC = 2
    OPEN = 4
    READ = 8
    TRUNCATE = 16
    HALF = 32

    ALL = WRITE | SYNC | OPEN | READ | TRUNCATE


class FailingDisk:
    """The files of one folder, for processes that are started with its `environment`."""

    def __init__(self, folder: Path, page: Path) -> None:
        """`page` is a file to make, outside of `folder`."""
        page.write_bytes(bytes(_PAGE.size))
        with page.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE.size)
        self.environment = {**watched(folder), "MULTICLAW_DISK_FAULT": str(page)}

    @property
    def hits(self) -> int:
        """How many operations have met the fault that is on, or was on last."""
        return int(_PAGE.unpack(self._page[:])[2])

    @contextlib.contextmanager
    def failing(self, operations: Fails, error: int, suffix: str = "") -> Iterator[None]:
        """Inside, these operations on files of that suffix fail with `error`; with 0 they hang until the end."""
        self._page[:] = _PAGE.pack(operations, error, 0, suffix.encode())
        try:
            yield
        finally:
            self._page[: struct.calcsize("=I")] = struct.pack("=I", 0)
