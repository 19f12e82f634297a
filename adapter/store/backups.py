"""The folder of backups: what is in it, one more of them, and which ones go."""

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from adapter.core.backup_plan import Backup, parse_name
from adapter.store.ownership import give_to_owner_of
from adapter.store.queries import SQL
from adapter.store.replacing import finish_replacement
from adapter.store.room import require_room
from adapter.store.witness import check_complete, check_present, read_witness
from shared.database import (
    PARTIAL_SUFFIX,
    Damage,
    Rest,
    SqliteError,
    read_missing,
    read_once,
    refuse_copy,
    stamp_copy,
    verify_backup,
    write_copy,
)
from shared.times import MICROSECONDS

_log = logging.getLogger(__name__)

_PARTIAL: Final = f"store{PARTIAL_SUFFIX}"

_ROOM_SHARE: Final = 1.1
_ROOM_BYTES: Final = 64 * 1024 * 1024
"""What must be free beside the size of the store: a tenth for what is sent meanwhile, and one more of the largest logs
that a store keeps. A backup must never be what fills the disk."""

_CHUNK_BYTES: Final = 1024 * 1024

Progress = Callable[[int, int], None]
"""Bytes that are written, and of how many."""


def list_backups(folder: Path) -> list[Backup]:
    """Those in the folder, the newest first; none where there is no folder. Raises `OSError`."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(filter(None, map(parse_name, names)), reverse=True)


def newest_verified(folder: Path) -> Path | None:
    """The newest one that verifies now; reads it whole. Raises `OSError`."""
    for backup in list_backups(folder):
        path = folder / backup.name
        try:
            verify_backup(path)
        except (Damage, SqliteError) as error:
            _log.warning("backup-unfit: %s: %s", path, error)
        else:
            return path
    return None


def remove_partials(folder: Path) -> None:
    """Remove what a process left behind that was killed while it copied. Needs the store's lock."""
    for path in folder.glob(f"{_PARTIAL}*"):
        path.unlink(missing_ok=True)


def remove_backups(folder: Path, backups: list[Backup]) -> None:
    """Remove these. One that somebody else has removed is gone."""
    for backup in backups:
        (folder / backup.name).unlink(missing_ok=True)


def bytes_needed(connection: sqlite3.Connection) -> int:
    """How large a copy becomes. For the connection's own thread: it reads, and for that moment nothing else may."""
    pages, page_bytes = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size")
    )
    return pages * page_bytes


def bytes_written(folder: Path) -> int:
    """Of the copy that is being made."""
    with contextlib.suppress(OSError):
        return (folder / _PARTIAL).stat().st_size
    return 0


def back_up_stopped(store: Path, folder: Path, at_us: int, progress: Progress) -> Backup:
    """The same of a store that nobody has open, and whose lock the caller holds. It is left as it is.

    Raises what `back_up` raises, `Damage` for a store that is not whole, and `ConfigurationFault` for a backup in its
    place.
    """
    finish_replacement(store)
    refuse_copy(store)
    witness = read_witness(store)
    check_present(store, witness)
    if not store.exists():
        raise FileNotFoundError(f"there is no store at {store}; the adapter makes it when it starts")

    def unit(connection: sqlite3.Connection) -> Backup:
        connection.execute("PRAGMA application_id").fetchone()  # the first read: SQLite has read its log now
        lost = read_missing(store, connection)
        if lost is not None:
            raise Damage(lost)
        check_complete(store, witness, _last_message_id(connection))
        size = bytes_needed(connection)
        return back_up(connection, folder, at_us, size, lambda _: progress(min(bytes_written(folder), size), size))

    return asyncio.run(read_once(store, unit))


def export(source: Path, target: Path) -> None:
    """Copy a backup to a place of somebody's own, verified there; raises what `back_up` raises, and nothing is left of
    one that failed.
    """
    if target.exists():
        raise FileExistsError(f"there is a file {target} already; nothing was copied")
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    try:
        copy_file(source, partial)
        verify_backup(partial)
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def copy_file(source: Path, target: Path) -> None:
    """A private, durable copy of a file that nobody writes. Raises `OSError`."""
    with source.open("rb") as given, _private(target) as taken:
        shutil.copyfileobj(given, taken, _CHUNK_BYTES)
        taken.flush()
        os.fsync(taken.fileno())


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def back_up(connection: sqlite3.Connection, folder: Path, at_us: int, size: int, rest: Rest) -> Backup:
    """Copy what the connection has open, of so many bytes, into the folder, verified and stamped as a copy.

    Raises `NoRoomError`, `Damage`, and what SQLite, the system and `rest` raise; nothing is left of one that failed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_room(folder, size)

    def seal(copy: sqlite3.Connection) -> Path:
        stamp_copy(copy)
        return folder / _free(folder, _last_message_id(copy), at_us).name

    return _named(write_copy(connection, folder / _PARTIAL, seal, rest))


def _last_message_id(connection: sqlite3.Connection) -> int:
    last: int | None = connection.execute(SQL["last_message_id"]).fetchone()[0]
    return last or 0


def _free(folder: Path, last_message_id: int, at_us: int) -> Backup:
    """A second has room for one backup of a state."""
    backup = Backup(last_message_id, at_us)
    while (folder / backup.name).exists():
        backup = backup._replace(made_at_us=backup.made_at_us + MICROSECONDS)
    return backup


def _named(path: Path) -> Backup:
    backup = parse_name(path.name)
    if backup is None:
        raise ValueError(f"{path.name} is no name of a backup")
    return backup


def check_room(folder: Path, size: int) -> None:
    """Raises `NoRoomError` where a copy of so many bytes would leave too little."""
    needed = int(size * _ROOM_SHARE) + _ROOM_BYTES
    require_room(folder, needed, "a copy", "; make room, keep fewer backups, or name another folder in [backups]")


@contextlib.contextmanager
def owned_like(store: Path, folder: Path) -> Iterator[None]:
    """What root makes in the folder inside this block belongs to whoever the store belongs to, which is to use it."""
    yield
    if folder.exists():
        give_to_owner_of(store.parent, folder, *folder.iterdir())
