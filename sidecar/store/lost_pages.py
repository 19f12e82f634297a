"""Pages of zeros in the sidecar's store, which pass their checksums (`shared/database/zero_pages.py`), and a store
without pages, which would pass for a new one: sought before it is opened, and where SQLite calls it malformed.

SQLite itself notices one as soon as it reads it, except for the last page of a long row: then the row ends in zeros.
Our long rows end in JSON and a time, which are held against that as they are read.
"""

import contextlib
import os
from pathlib import Path
from typing import Any, Final

from shared.database import Damage, is_gone, lost_pages

_NAMED_MAX: Final = 10
CUT: Final = "a row ends in zeros: a page of it is gone"


class LostPages:
    """Looks at the file of one store while nobody writes to it. The descriptor is kept until the last connection is
    closed, since closing it drops the locks of this process on the file (fcntl(2), "Record locks").
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def refuse(self) -> None:
        """Raises `Damage` where there are any, and `OSError`; blocks for a second with some hundred megabytes."""
        if is_gone(self._path):
            raise Damage(
                f"it is gone or empty, and commits were made in it, as {self._path.name}-mark tells: put the right "
                "files back; where all that waited in it is to be given up, remove what begins with its name"
            )
        if self._descriptor is None:
            with contextlib.suppress(FileNotFoundError):  # it is made in a moment
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        if self._descriptor is None:
            return
        lost = lost_pages(self._descriptor, self._path.with_name(self._path.name + "-wal"), _NAMED_MAX)
        if lost:
            raise Damage(f"these pages are zeros, and were not: {', '.join(map(str, lost))}")

    def close(self) -> None:
        """Let the file go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def stored_json(column: Any, at_us: int = 1) -> bytes:
    """The encoded JSON of a row which ends in it, or in the time `at_us` behind it; raises `Damage` for one whose end
    is gone."""
    encoded = bytes(column)
    if encoded.endswith(b"\0"):
        raise Damage(CUT)
    stored_time(at_us)
    return encoded


def stored_time(at_us: int) -> int:
    """The time that ends a row; raises as `stored_json` does."""
    if at_us == 0:
        raise Damage(CUT)
    return at_us
