"""What the first bytes of a store tell of it, without SQLite (https://sqlite.org/fileformat2.html, 1.3).

A process that has the store open must not read it so: closing the file would drop its own locks (fcntl(2)).
"""

from pathlib import Path
from typing import Final, NamedTuple

HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_PAGE_SIZE_AT: Final = 16  # two bytes; 1 stands for 65,536
_WRITE_FORMAT_AT: Final = 18  # 2: with a write-ahead log
_RESERVED_AT: Final = 20
_APPLICATION_ID_AT: Final = 68
_INCREMENTAL_VACUUM_AT: Final = 64  # four bytes; 0 unless free pages can be given back


class StoreHeader(NamedTuple):
    """Bytes of a page, bytes that each page reserves at its end, whether writes go to a log first, whether free pages
    can be given back to the file system, and what kind of file it calls itself."""

    page_bytes: int
    reserved_bytes: int
    logged: bool
    shrinks: bool
    application_id: int


def parse_header(first: bytes) -> StoreHeader | None:
    """What a file that starts with `first` says of itself; `None` if it is no SQLite database."""
    if len(first) < HEADER_BYTES or not first.startswith(_MAGIC):
        return None
    size = int.from_bytes(first[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 2], "big")
    shrinks = any(first[_INCREMENTAL_VACUUM_AT : _INCREMENTAL_VACUUM_AT + 4])
    application_id = int.from_bytes(first[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4], "big")
    return StoreHeader(
        65_536 if size == 1 else size, first[_RESERVED_AT], first[_WRITE_FORMAT_AT] == 2, shrinks, application_id
    )


def read_header(path: Path) -> StoreHeader | None:
    """The same of the file at `path`; raises `OSError`."""
    with path.open("rb") as file:
        return parse_header(file.read(HEADER_BYTES))
