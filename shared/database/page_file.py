"""The pages of a store as they stand in its file, each verified by its checksum, beside whoever has it open.

A page of zeros has the checksum of zeros; it is wrong where the map of pages says that it is used (`zero_pages.py`).
"""

import os
import threading
import time
from pathlib import Path
from typing import Final

from shared.database.checksums import APPLICATION_ID, RESERVED_BYTES, library_checksums
from shared.database.header import HEADER_BYTES, StoreHeader, parse_header
from shared.database.library import LIBRARY
from shared.database.zero_pages import is_lost

_PAGE_SIZES: Final = frozenset(1 << exponent for exponent in range(9, 17))  # https://sqlite.org/fileformat2.html, 1.3.2
_PAGE_BYTES_DEFAULT: Final = 8192
_READS: Final = 4
_PAUSE_SECONDS: Final = 0.25
"""A page that a checkpoint is just writing may be read half old and half new: only one that is wrong each time, over
the better part of a second, is wrong."""


def _fault(header: StoreHeader | None) -> str | None:
    if header is None:
        return "page 1 does not begin as a database does"
    if header.page_bytes not in _PAGE_SIZES:
        return f"page 1 says that pages have {header.page_bytes} bytes, which none can have"
    if header.application_id == APPLICATION_ID and header.reserved_bytes != RESERVED_BYTES:
        return "page 1 says that pages are not checked, and the store was made with page checksums"
    return None


class PageFile:
    """One descriptor of the file, and the library's own function that verifies a page. `fault` is what is wrong with
    the header, without which no page can be found.

    In a process that has the store open by SQLite, it must be closed after the last connection: closing it drops the
    process's locks on the file (fcntl(2), "Record locks").
    """

    def __init__(self, path: Path) -> None:
        """Raises `OSError`."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._lock = threading.Lock()
        header = parse_header(os.pread(self._descriptor, HEADER_BYTES, 0))
        self.fault = _fault(header)
        self.checksums = library_checksums()
        if header is None or header.reserved_bytes != RESERVED_BYTES:
            self.checksums = "off: the store was made without them"
        self._page_bytes = header.page_bytes if header and self.fault is None else _PAGE_BYTES_DEFAULT
        self._log = path.with_name(path.name + "-wal")
        self._has_map = header is not None and header.shrinks
        self._memory = LIBRARY.connect(":memory:", check_same_thread=False)

    @property
    def pages(self) -> int:
        """How many there are now."""
        return os.fstat(self._descriptor).st_size // self._page_bytes

    def wrong_pages(self, first: int, count: int) -> list[int]:
        """Numbers of those that are wrong, of `count` from `first` on. Raises `OSError`; blocks."""
        with self._lock:
            if self._descriptor < 0:
                return []
            wrong = self._verify(range(first, first + count))
            for _ in range(_READS - 1):
                if wrong:
                    time.sleep(_PAUSE_SECONDS)
                    wrong = self._verify(wrong)
            return wrong

    def _verify(self, numbers: "range | list[int]") -> list[int]:
        wrong = []
        for number in numbers:
            page = self._read(number)
            if len(page) < self._page_bytes:
                break
            if not any(page):
                if self._has_map and is_lost(number, self._page_bytes, self._read, self._log):
                    wrong.append(number)
            elif self._memory.execute("SELECT verify_checksum(?)", (page,)).fetchone()[0] == 0:
                wrong.append(number)
        return wrong

    def _read(self, number: int) -> bytes:
        return os.pread(self._descriptor, self._page_bytes, (number - 1) * self._page_bytes)

    def close(self) -> None:
        """Let the file go, after a slice that is being read."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                self._memory.close()
