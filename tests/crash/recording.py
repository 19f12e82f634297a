"""Recordings: what a scenario did to its files, and what it had promised by then.

A scenario runs as a process of its own, on a disk that notes every change. What it promises to somebody it writes down
with `tell` at that moment; since that is a write like any other, the recording holds promises and disk operations in
one order.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from shared.durable_files import sync_folder
from tests.support.diskshim import watched

_HEAD = struct.Struct("=BIQQ")
_PROMISES = "promises"
_SECONDS_MAX = 120


class Operation(IntEnum):
    """As in `tests/support/diskshim.c`."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    UNLINK = 5
    RENAME = 6
    SYNC_FAILED = 7
    LINK = 8
    MAKE_FOLDER = 9
    REMOVE_FOLDER = 10


@dataclass(frozen=True, slots=True)
class Record:
    """One operation. `offset` is where a write went or how long a file was made; the data of a rename and of a link is
    the new name."""

    operation: Operation
    path: str
    offset: int
    data: bytes

    @property
    def changes_names(self) -> bool:
        """Whether it changes not what a file holds, but which there are."""
        return self.operation not in {Operation.WRITE, Operation.TRUNCATE, Operation.SYNC, Operation.SYNC_FAILED}


@dataclass(frozen=True, slots=True)
class Recording:
    """What happened, paths relative to the scenario's folder, promises among it."""

    steps: list["Record | dict[str, Any]"]

    @property
    def operations(self) -> int:
        """How many changes of the disk."""
        return sum(isinstance(step, Record) for step in self.steps)

    @property
    def failed_syncs(self) -> int:
        """How many syncs were made to fail."""
        return sum(isinstance(step, Record) and step.operation is Operation.SYNC_FAILED for step in self.steps)


def tell(folder: Path, promise: dict[str, Any]) -> None:
    """In a scenario: this has just been promised."""
    descriptor = os.open(folder / "state" / _PROMISES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, json.dumps(promise).encode())
    os.close(descriptor)


def settle_folders(folder: Path) -> None:
    """In a scenario: its folders were made long before the power fails."""
    for made in sorted(each for each in (folder / "state").rglob("*") if each.is_dir()):
        while True:
            with contextlib.suppress(OSError):  # one that was made to fail
                sync_folder(made.parent)
                break


def record(scenario: str, mutant: str = "", *, fail_sync_every: int = 0) -> Recording:
    """Run `python -m tests.crash.SCENARIO FOLDER MUTANT`, noted; each so many syncs one fails, 0: none."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        log = Path(folder) / "record"
        work = Path(folder) / "work"
        (work / "state").mkdir(parents=True)
        environment = {
            **os.environ,
            **watched(work / "state"),
            "MULTICLAW_DISK_RECORD": str(log),
            "MULTICLAW_DISK_FAIL_SYNC_EVERY": str(fail_sync_every),
        }
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", f"tests.crash.{scenario}", str(work), mutant],
            env=environment, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return Recording(list(_steps(log.read_bytes(), work / "state")))


def _steps(log: bytes, folder: Path) -> Iterator[Record | dict[str, Any]]:
    at = 0
    while at < len(log):
        operation, path_length, offset, length = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        path = os.path.relpath(log[at : at + path_length].decode(), folder)
        at += path_length
        names = operation in {Operation.RENAME, Operation.LINK}
        carries = names or operation == Operation.WRITE
        data = log[at : at + length] if carries else b""
        at += len(data)
        if path == _PROMISES:
            if operation == Operation.WRITE:
                yield json.loads(data)
        elif not path.endswith("-shm"):  # shared memory of the processes that have just lost their power
            yield Record(
                Operation(operation), path, offset, os.path.relpath(data.decode(), folder).encode() if names else data
            )
