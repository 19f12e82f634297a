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
from shared.database.checksums import APPLICATION_ID, RESERVED_BYTES, damaged_pages, library_checksums
from shared.database.damage import Damage
from shared.database.header import read_header
from shared.database.library import LIBRARY
from shared.durable_files import sync_folder

COPY_ID: Final = 0x4D634231
PLAIN_COPY_ID: Final = 0x4D634230
"""`McB1`, and `McB0` for one without page checksums: stands in the header of a backup in the place of a store's own
mark. So one that was put in the place of a store by hand is known before anything is read through it."""

_STEP_PAGES: Final = 32
"""256 KiB: a step takes less than a millisecond, which a commit that comes meanwhile waits longer."""

_REST_SHARE: Final = 3
_REST_SECONDS_MIN: Final = 0.001
"""After each step three times what it took: a quarter of the connection's time at most is the copy's."""

_BUSY_SECONDS: Final = 0.001

_SYNC_STEPS: Final = 64
"""16 MiB: what is copied reaches the disk bit by bit, so that no sync is so long that commits wait for it."""

_CHECK_OPERATIONS: Final = 1_000
"""Of SQLite's machine, some milliseconds, between two looks whether a check is to go on."""

PARTIAL_SUFFIX: Final = ".partial"
"""A copy that is not finished and verified yet, or never will be."""

Rest = Callable[[float], None]
"""Waits for so many seconds; raises to give the copy up."""

Seal = Callable[[sqlite3.Connection], Path]
"""Is given a copy that has all pages, before it is verified: writes into it what it needs, and says what it is called.
"""


def write_backup(source: sqlite3.Connection, target: Path, rest: Rest = time.sleep) -> None:
    """Copy what `source` has open to `target`, which must not be there, and verify it: then it has that name.

    Takes seconds for each gigabyte, and is for a thread of its own. Raises what SQLite and the system raise, and
    `Damage` for a copy that is not right; nothing is left of one that failed.
    """
    _refuse_present(target)
    write_copy(source, target.with_name(target.name + PARTIAL_SUFFIX), lambda _: target, rest)


def write_copy(source: sqlite3.Connection, partial: Path, seal: Seal, rest: Rest = time.sleep) -> Path:
    """As `write_backup`, of what is named only once it is copied; `partial` is its name until then."""
    partial.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial.unlink(missing_ok=True)
    try:
        target = _copy(source, partial, seal, rest)
        _refuse_present(target)
        _sync(partial)
        verify_backup(partial, rest)
        partial.rename(target)
        sync_folder(target.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return target


def verify_backup(path: Path, rest: Rest | None = None) -> None:
    """Read every page of a file that nobody has open; raises `Damage`, or what SQLite and the system raise.

    Raises `ConfigurationFault` for one with page checksums where this process cannot verify them, and what `rest`
    raises.
    """
    header = read_header(path)
    if header is None:
        raise Damage(f"{path} is no SQLite database")
    library = library_checksums()
    if header.application_id in {APPLICATION_ID, COPY_ID}:
        if library != "on":
            raise ConfigurationFault(f"{path} has page checksums, and they are {library}; install what is missing")
        if header.reserved_bytes != RESERVED_BYTES:
            raise Damage(f"{path}: page 1 says that pages are not checked, and it was made with page checksums")
    wrong = damaged_pages(path, pause=_pausing(rest)) if header.reserved_bytes else []
    if wrong:
        raise Damage(f"{path}: wrong pages: {', '.join(map(str, wrong))}")
    with contextlib.closing(connect_copy(path)) as copy:
        said = _quick_check(copy, rest)
        if said != ["ok"]:
            raise Damage(f"{path}: {'; '.join(said[:3])}")


def stamp_copy(copy: sqlite3.Connection) -> None:
    """Have it say that it is a backup, so that no process takes it for its store."""
    own = copy.execute("PRAGMA application_id").fetchone()[0]
    copy.execute(f"PRAGMA application_id={COPY_ID if own == APPLICATION_ID else PLAIN_COPY_ID}").fetchall()


def unstamp_copy(copy: sqlite3.Connection) -> None:
    """Have it be a store again."""
    stamp = copy.execute("PRAGMA application_id").fetchone()[0]
    if stamp in {COPY_ID, PLAIN_COPY_ID}:
        copy.execute(f"PRAGMA application_id={APPLICATION_ID if stamp == COPY_ID else 0}").fetchall()


def connect_to_change(path: Path) -> sqlite3.Connection:
    """Open a copy that nobody else has, to write into it; each commit is durable, and in the file itself."""
    library_checksums()
    connection: sqlite3.Connection = LIBRARY.connect(os.fspath(path), isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=DELETE", "synchronous=FULL"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    return connection


def refuse_copy(path: Path) -> None:
    """Raise `ConfigurationFault` for a backup in the place of a store. For a store that this process has closed."""
    header = read_header(path) if path.is_file() else None
    if header is not None and header.application_id in {COPY_ID, PLAIN_COPY_ID}:
        raise ConfigurationFault(
            f"{path} is a backup that was put in the place of the store; nothing was changed. Move it away and put it "
            f"in place with: multiclaw restore FILE. It sees to it that no number is given twice"
        )


def _refuse_present(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"there is a file {target} already; nothing was copied")


def _pausing(rest: Rest | None) -> Callable[[], None]:
    """To be called between bits of work: rests in proportion to the time since the last rest."""
    begun = time.perf_counter()

    def pause() -> None:
        nonlocal begun
        if rest is not None:
            rest(max(_REST_SECONDS_MIN, _REST_SHARE * (time.perf_counter() - begun)))
            begun = time.perf_counter()

    return pause


def _quick_check(copy: sqlite3.Connection, rest: Rest | None) -> list[str]:
    """What SQLite says of the whole file. It does not rest, for it lets others run; `rest` can end it."""
    raised: list[BaseException] = []

    def look() -> bool:
        try:
            if rest is not None:
                rest(0.0)
        except BaseException as error:
            raised.append(error)
        return bool(raised)

    copy.set_progress_handler(look, _CHECK_OPERATIONS)
    try:
        return [row[0] for row in copy.execute("PRAGMA quick_check").fetchall()]
    except LIBRARY.OperationalError:
        if raised:
            raise raised[0] from None
        raise


def connect_copy(path: Path) -> sqlite3.Connection:
    """Read a file that nobody writes; makes no other file beside it."""
    connection: sqlite3.Connection = LIBRARY.connect(
        f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None, check_same_thread=False
    )
    return connection


def _copy(source: sqlite3.Connection, partial: Path, seal: Seal, rest: Rest) -> Path:
    library_checksums()
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    copy = LIBRARY.connect(os.fspath(partial), isolation_level=None, check_same_thread=False)
    pause = _pausing(rest)
    steps = 0

    def step(_status: int, _remaining: int, _total: int) -> None:
        nonlocal steps
        steps += 1
        if steps % _SYNC_STEPS == 0:
            _sync(partial)
        pause()

    with contextlib.closing(copy):
        # The only statements on the source: they need no transaction. One that reads would meet those of the units that
        # ask the log for its length after a commit, which SQLite then refuses ("database table is locked").
        page_bytes = source.execute("PRAGMA page_size").fetchone()[0]
        verifying = source.execute("PRAGMA checksum_verification").fetchone()
        # A copy that fails is thrown away whole, and one that succeeds is synced once.
        for setting in ("synchronous=OFF", "journal_mode=OFF", f"page_size={page_bytes}"):
            copy.execute(f"PRAGMA {setting}").fetchall()
        if verifying is not None and verifying[0] == "1":  # else the checksums would overwrite the ends of full pages
            copy.execute("CREATE TABLE first_page (n)")
        source.backup(copy, pages=_STEP_PAGES, progress=step, sleep=_BUSY_SECONDS)
        target = seal(copy)
        copy.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, whole by itself
        return target


def _sync(path: Path) -> None:
    """Make it durable, and have what is verified come from the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
