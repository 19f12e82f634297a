"""A copy of an open store, made beside the work of its connection, and verified before it counts.

SQLite's own backup, page by page over the connection that writes: commits between two steps enter the copy, nothing
starts anew, and no reader keeps the log from being emptied (https://sqlite.org/backup.html). `VACUUM INTO` would: it
holds one snapshot to its end, and its copy has wrong page checksums, since its first pages are written before the
checksum VFS has seen a header. So the copy is given a first page of its own before it begins.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shared.config import ConfigurationFault
from shared.database.checksums import APPLICATION_ID, damaged_pages, library_checksums
from shared.database.damage import Damage
from shared.database.header import read_header
from shared.database.library import LIBRARY
from shared.durable_files import sync_folder

_STEP_PAGES: Final = 32
"""256 KiB: a step takes less than a millisecond, which a commit that comes meanwhile waits longer."""

_REST_SHARE: Final = 3
_REST_SECONDS_MIN: Final = 0.001
"""After each step three times what it took: a quarter of the connection's time at most is the copy's."""

_BUSY_SECONDS: Final = 0.001

Rest = Callable[[float], None]
"""Waits for so many seconds; raises to give the copy up."""


def write_backup(source: sqlite3.Connection, target: Path, rest: Rest = time.sleep) -> None:
    """Copy what `source` has open to `target`, which must not be there, and verify it: then it has that name.

    Takes seconds for each gigabyte, and is for a thread of its own. Raises what SQLite and the system raise, and
    `Damage` for a copy that is not right; nothing is left of one that failed.
    """
    if target.exists():
        raise FileExistsError(f"there is a file {target} already; nothing was copied")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        _copy(source, partial, rest)
        _sync(partial)
        verify_backup(partial)
        partial.rename(target)
        sync_folder(target.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def verify_backup(path: Path) -> None:
    """Read every page of a file that nobody has open; raises `Damage`, or what SQLite and the system raise.

    Raises `ConfigurationFault` for one with page checksums where this process cannot verify them.
    """
    header = read_header(path)
    if header is None:
        raise Damage(f"{path} is no SQLite database")
    library = library_checksums()
    if header.application_id == APPLICATION_ID and library != "on":
        raise ConfigurationFault(f"{path} has page checksums, and they are {library}; install what is missing")
    wrong = damaged_pages(path) if header.reserved_bytes else []
    if wrong:
        raise Damage(f"{path}: wrong pages: {', '.join(map(str, wrong))}")
    with contextlib.closing(connect_copy(path)) as copy:
        said = [row[0] for row in copy.execute("PRAGMA quick_check").fetchall()]
        if said != ["ok"]:
            raise Damage(f"{path}: {'; '.join(said[:3])}")


def connect_copy(path: Path) -> sqlite3.Connection:
    """Read a file that nobody writes; makes no other file beside it."""
    connection: sqlite3.Connection = LIBRARY.connect(
        f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None, check_same_thread=False
    )
    return connection


def _copy(source: sqlite3.Connection, partial: Path, rest: Rest) -> None:
    library_checksums()
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    copy = LIBRARY.connect(os.fspath(partial), isolation_level=None, check_same_thread=False)
    begun = time.perf_counter()

    def step(_status: int, _remaining: int, _total: int) -> None:
        nonlocal begun
        rest(max(_REST_SECONDS_MIN, _REST_SHARE * (time.perf_counter() - begun)))
        begun = time.perf_counter()

    with contextlib.closing(copy):
        page_bytes = source.execute("PRAGMA page_size").fetchone()[0]
        # A copy that fails is thrown away whole, and one that succeeds is synced once.
        for setting in ("synchronous=OFF", "journal_mode=OFF", f"page_size={page_bytes}"):
            copy.execute(f"PRAGMA {setting}").fetchall()
        copy.execute("CREATE TABLE first_page (n)")
        source.backup(copy, pages=_STEP_PAGES, progress=step, sleep=_BUSY_SECONDS)
        copy.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, whole by itself


def _sync(path: Path) -> None:
    """Make it durable, and have what is verified come from the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
