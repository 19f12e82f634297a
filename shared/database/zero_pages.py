"""Pages of zeros. They have the checksum of zeros, so that it does not tell whether one was lost.

SQLite itself leaves zeros where it has made room in the file for a page that was free again before it was written. The
map of pages tells which are free (https://sqlite.org/fileformat2.html, 1.8); a store that can shrink has one. What
stands in the log counts instead of what stands in the file. The last page of a long row may be zeros, too, if the row
ends in as many; no row of ours does, since it ends in text.
"""

import contextlib
import os
import struct
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from shared.database.checksums import RESERVED_BYTES
from shared.database.header import HEADER_BYTES, parse_header
from shared.database.log_mark import FRAME_HEADER_BYTES, LOG_HEADER_BYTES, parse_salts

_LOCK_BYTE: Final = 0x40000000  # SQLite locks at this byte and never uses the page there
_ENTRY_BYTES: Final = 5
_FREE: Final = 2
_FRAME: Final = struct.Struct(">II8s")  # number of the page, size of the database, salts
_SPOILT: Final = b"\xff"


class _Place(NamedTuple):
    """The page of the map that tells of a page, and where in it; `at` is negative for a page of the map itself."""

    number: int
    at: int


def is_lost(number: int, page_bytes: int, read_page: Callable[[int], bytes], log: Path) -> bool:
    """Whether a page that is all zeros in the file is one that somebody needs. Raises `OSError`.

    `read_page` gives a page of the file. While somebody writes to it, the answer may be wrong for a moment.
    """
    if number == _LOCK_BYTE // page_bytes + 1:
        return False
    place = _place(number, page_bytes)
    if place.at >= 0 and read_page(place.number)[place.at] == _FREE:
        return False
    logged = _newest_in_log(log, {number, place.number}, page_bytes)
    if number in logged:
        return False
    return place.at < 0 or logged.get(place.number, read_page(place.number))[place.at] != _FREE


def lost_pages(descriptor: int, log: Path, pages_max: int | None = None) -> list[int]:
    """Numbers of the pages of zeros that somebody needs, `pages_max` of them at most, in the file of a store to which
    nobody writes meanwhile; none where it has no map of its pages. Raises `OSError`.
    """
    header = parse_header(os.pread(descriptor, HEADER_BYTES, 0))
    if header is None or not header.shrinks or header.reserved_bytes != RESERVED_BYTES:
        return []
    size = header.page_bytes

    def read_page(number: int) -> bytes:
        return os.pread(descriptor, size, (number - 1) * size)

    numbers = range(1, os.fstat(descriptor).st_size // size + 1)
    lost = (number for number in numbers if not any(read_page(number)) and is_lost(number, size, read_page, log))
    return list(islice(lost, pages_max))


def spoil_zero_pages(path: Path) -> list[int]:
    """Overwrite the pages of zeros that somebody needs with what fails its checksum, in a private copy of a store, and
    give their numbers. Raises `OSError`.
    """
    with path.open("r+b", buffering=0) as file:
        header = parse_header(os.pread(file.fileno(), HEADER_BYTES, 0))
        if header is None:
            return []
        lost = lost_pages(file.fileno(), path.with_name(path.name + "-wal"))
        for number in lost:
            os.pwrite(file.fileno(), _SPOILT * header.page_bytes, (number - 1) * header.page_bytes)
    return lost


def _place(number: int, page_bytes: int) -> _Place:
    told_of = (page_bytes - RESERVED_BYTES) // _ENTRY_BYTES
    map_page = (number - 2) // (told_of + 1) * (told_of + 1) + 2
    if map_page == _LOCK_BYTE // page_bytes + 1:
        map_page += 1
    return _Place(map_page, (number - map_page - 1) * _ENTRY_BYTES)


def _newest_in_log(log: Path, numbers: Collection[int], page_bytes: int) -> dict[int, bytes]:
    """Pages as the log holds them last, of those that it holds at all."""
    found: dict[int, int] = {}
    with contextlib.suppress(FileNotFoundError), log.open("rb", buffering=0) as file:
        salts = parse_salts(file.read(LOG_HEADER_BYTES))
        at = LOG_HEADER_BYTES
        while salts is not None and len(head := os.pread(file.fileno(), _FRAME.size, at)) == _FRAME.size:
            number, _, of = _FRAME.unpack(head)
            if of != salts:
                break
            if number in numbers:
                found[number] = at
            at += FRAME_HEADER_BYTES + page_bytes
        return {number: os.pread(file.fileno(), page_bytes, at + FRAME_HEADER_BYTES) for number, at in found.items()}
    return {}
