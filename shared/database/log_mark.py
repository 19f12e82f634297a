"""How far the log was committed, kept apart from it, so that a log that lost its end is noticed.

SQLite takes the first frame of its log that is not right for the end of the log. After a power cut it is; but a bit
that flips in an older frame takes every later commit with it, without a word. So after each commit its place is noted
in a file of its own, overwritten and never synced: after a crash of the process it is exact, after one of the machine
it may lag behind, and ahead of the log it is never, because the log is synced first.
(https://sqlite.org/fileformat2.html, 4.1: the log's header, its salts and checksums.)
"""

import contextlib
import os
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from shared.database.library import LIBRARY

CAN_MARK: Final = LIBRARY.sqlite_version_info >= (3, 51, 0)
"""Since this version `PRAGMA wal_checkpoint(NOOP)` tells the number of frames and moves none."""

_MARK: Final = struct.Struct(">8sII")  # salts, frames, CRC-32 of both
_NOT_OPEN: Final = bytes(_MARK.size)
_HEADER: Final = struct.Struct(">4s12s8sII")  # magic, format to sequence number, salts, checksum
LOG_HEADER_BYTES: Final = _HEADER.size
_PAGE_BYTES_AT: Final = 8
_SALTS_AT: Final = 16
_SALTS_BYTES: Final = 8
FRAME_HEADER_BYTES: Final = 24
_FRAME_SALTS: Final = slice(8, 16)
_MAGIC: Final = {b"\x37\x7f\x06\x82": "<", b"\x37\x7f\x06\x83": ">"}  # each with the order of the checksum's words


class Mark(NamedTuple):
    """So many frames of the log with these salts were committed. A log that starts anew has other salts."""

    salts: bytes
    frames: int


def parse_mark(stored: bytes) -> Mark | None:
    """The mark, or `None` where there is none or it is unreadable, which proves nothing of the log."""
    if len(stored) != _MARK.size or stored == _NOT_OPEN:
        return None
    salts, frames, crc = _MARK.unpack(stored)
    return Mark(salts, frames) if crc == zlib.crc32(stored[:-4]) else None


def parse_salts(header: bytes) -> bytes | None:
    """The salts of a log that starts with `header`, or `None` where SQLite takes it for no log."""
    if len(header) < _HEADER.size:
        return None
    magic, _, salts, *checksum = _HEADER.unpack_from(header)
    order = _MAGIC.get(magic)
    if order is None:
        return None
    first = second = 0
    for even, odd in struct.iter_unpack(f"{order}II", header[:24]):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return salts if [first, second] == checksum else None


def readable_bytes(log: BinaryIO) -> int:
    """How much of an open log SQLite may read after a crash: its header, and frames as long as they have its salts."""
    log.seek(0)
    header = log.read(_HEADER.size)
    salts = parse_salts(header)
    if salts is None:
        return 0
    (page_bytes,) = struct.unpack_from(">I", header, _PAGE_BYTES_AT)
    at = _HEADER.size
    while log.read(FRAME_HEADER_BYTES)[_FRAME_SALTS] == salts:
        at = log.seek(at + FRAME_HEADER_BYTES + page_bytes)
    return at


def lost_commits(mark: Mark | None, header: bytes, frames: int) -> str | None:
    """What of the committed log is missing, when SQLite found `frames` in the log that starts with `header`."""
    if mark is None or mark.frames == 0:
        return None
    salts = parse_salts(header)
    if salts is None:
        return f"its log is gone or unreadable, and {mark.frames} frames of it were committed"
    if salts == mark.salts and frames < mark.frames:
        return f"its log is right up to frame {frames}, and {mark.frames} frames of it were committed"
    return None


class LogMark:
    """The mark of one store, followed by the connection that writes."""

    def __init__(self, store: Path) -> None:
        self._log_path = store.with_name(store.name + "-wal")
        self._mark_path = store.with_name(store.name + "-mark")
        self._stored = self._mark_path.read_bytes() if self._mark_path.exists() else b""
        self._header = self._read_header()
        self._descriptors: list[int] = []
        self._noted: tuple[int, bytes] | None = None

    def _read_header(self) -> bytes:
        try:
            with self._log_path.open("rb") as file:
                return file.read(_HEADER.size)
        except FileNotFoundError:
            return b""

    def missing(self, connection: sqlite3.Connection) -> str | None:
        """What the connection, which has read the log and written nothing, does not see of what was committed."""
        return lost_commits(parse_mark(self._stored), self._header, _frames(connection))

    def follow(self, connection: sqlite3.Connection) -> None:
        """Note where the log stands now; to be called before a commit is told to anyone."""
        if not self._descriptors:
            for path in (self._log_path, self._mark_path):
                self._descriptors.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        log, mark = self._descriptors
        place = _frames(connection), os.pread(log, _SALTS_BYTES, _SALTS_AT)
        if place != self._noted:
            body = _MARK.pack(place[1], place[0], 0)[:-4]
            os.pwrite(mark, body + zlib.crc32(body).to_bytes(4, "big"), 0)
            self._noted = place

    def clear(self) -> None:
        """Before the log is emptied for good: from now on it promises nothing. Durable, or a power cut would bring
        the mark back without its log.
        """
        if self._descriptors:
            os.pwrite(self._descriptors[1], _NOT_OPEN, 0)
            os.fdatasync(self._descriptors[1])
            self._noted = None

    def close(self) -> None:
        """Let the files go."""
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors = []


def read_missing(store: Path, connection: sqlite3.Connection) -> str | None:
    """What a connection that has read the log does not see of what was committed; `None` where nothing is missing, or
    where this SQLite cannot tell.
    """
    return LogMark(store).missing(connection) if CAN_MARK else None


def is_gone(store: Path) -> bool:
    """Whether a store in which commits were noted has no page, nor any in its log. Whoever has it open is not asked."""
    mark, log = store.with_name(store.name + "-mark"), store.with_name(store.name + "-wal")
    if not mark.exists() or not mark.stat().st_size or (store.exists() and store.stat().st_size):
        return False
    if not log.exists():
        return True
    with log.open("rb") as file:
        return readable_bytes(file) == 0


def _frames(connection: sqlite3.Connection) -> int:
    """Frames in the log, by the connection's own book."""
    frames: int = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()[1]
    return frames
