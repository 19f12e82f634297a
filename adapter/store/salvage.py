"""What can be read of a damaged store, from a private copy of its files: the damaged ones stay as they are.

Two ways to read. Verifying page checksums, no row of a wrong page is given, and what follows one is found again by
asking for each number. Not verifying, rows of wrong pages are given too, and count where something else vouches for
them: the digest of a message, or the order of the whole file together with what the caller knows.

One thing makes many checksums wrong and harms nothing: a plain SQLite, as an operator's shell, that opens a store after
a crash and brings its log into the file as it closes. The log is gone then, as the mark tells; the page with the
counters, which each send has written, has a wrong checksum; and the file is in order. All of it is taken then.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from adapter.core.repair_losses import Holes
from adapter.store.queries import MIGRATIONS, READABLE, REPAIR_SQL, SCHEMA
from adapter.store.rebuilt_rows import KEYED, statement
from shared.database import Damage, SqliteError, is_damage, library_checksums, read_missing
from shared.database.checksums import damaged_pages
from shared.database.library import LIBRARY
from shared.database.mending import sign_page
from shared.database.migrations import newest, version_of

Row = sqlite3.Row
Step = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much; raises to give the work up."""

_COPIED: Final = ("", "-wal", "-mark")
_PAGES_NAMED_MAX: Final = 10
_CHUNK_BYTES: Final = 1024 * 1024
_CHECK_OPERATIONS: Final = 100_000
"""Of SQLite's machine, some hundredths of a second, between two looks whether a check is to go on."""


def copy_files(store: Path, folder: Path, step: Step) -> Path:
    """Copy the files of a store that nobody has open into the folder, and give the copy. Raises `OSError`."""
    target, size, done = folder / "damaged.db", store.stat().st_size, 0
    for suffix in _COPIED:
        source = store.with_name(store.name + suffix)
        if source.exists():
            with source.open("rb") as given, target.with_name(target.name + suffix).open("xb") as taken:
                while chunk := given.read(_CHUNK_BYTES):
                    done += taken.write(chunk)
                    step("copy", min(done, size), size)
    return target


class Salvage:
    """A copy of a damaged store, opened for reading in both ways.

    `wrong_pages` are the first of them; `in_order` is whether `integrity_check` finds no fault when checksums are left
    out; `lost_commits` is what its log has lost. `foreign` says that a plain SQLite has been at it, as above, and then
    nothing is verified.
    """

    def __init__(self, copy: Path, step: Step) -> None:
        """Raises `Damage` where it is of another version, and what SQLite raises that proves nothing."""
        library_checksums()
        step("check", 0, 1)
        self.wrong_pages = damaged_pages(copy, _PAGES_NAMED_MAX)
        self._lax = _connect(copy, verify=False)
        self._lax.set_progress_handler(lambda: _is_over(step), _CHECK_OPERATIONS)
        self.lost_commits = self._look_at_log(copy)
        self.in_order = _answer(self._lax, "PRAGMA integrity_check(1)") == "ok"
        if 1 in self.wrong_pages and self.in_order and _schema(self._lax) == _our_schema():
            sign_page(copy, 1)  # what it holds, the schema and where the tables begin, was just found right
        self._strict = _connect(copy, verify=True)
        self.verifies = _answer(self._strict, "PRAGMA checksum_verification") == "1"
        log = copy.with_name(copy.name + "-wal")
        is_gone = self.lost_commits is not None and (not log.exists() or log.stat().st_size == 0)
        counters = [_answer(each, REPAIR_SQL["sum_of_counters"]) for each in (self._strict, self._lax)]
        self.foreign = is_gone and self.in_order and counters[0] is None and counters[1] is not None
        if self.foreign:
            self.lost_commits = None
        self._reading = self._lax if self.foreign else self._strict

    def close(self) -> None:
        """Let the copy go."""
        self._strict.close()
        self._lax.close()

    def _look_at_log(self, copy: Path) -> str | None:
        try:
            version = version_of(self._lax)  # the first read: SQLite has read its log now
            lost = read_missing(copy, self._lax)
        except SqliteError as error:
            if not _proves(error):
                raise
            return None
        if version not in READABLE:
            raise Damage(f"it is of version {version}, and only one of {newest(MIGRATIONS)} can be repaired")
        return lost

    def table(self, name: str, columns: str) -> list[Row] | None:
        """All rows of a small table, or `None` where they cannot all be read. One that is not there, because the
        program that wrote the store did not know it yet, has none.
        """
        tables = _rows(self._reading, REPAIR_SQL["schema_rows"])
        if tables and name not in {row["name"] for row in tables}:
            return []
        return _rows(self._reading, statement("all_rows", name, columns))

    def unverified_table(self, name: str, columns: str) -> list[Row] | None:
        """The same, for a caller that knows what they should be."""
        return _rows(self._lax, statement("all_rows", name, columns))

    def newest(self, name: str) -> int:
        """The largest number in a large table, as far as that can be read."""
        return _answer(self._reading, statement("newest_number", name)) or 0

    def groups(self, name: str, columns: str, last: int, holes: Holes) -> Iterator[tuple[int, list[Row]]]:
        """Rows of a large table by the number of their message, all of one together; `last` is the newest there can
        be. What could not be read is in `holes`.
        """
        key = KEYED[name]
        following = statement("rows_after", name, columns)
        at = 0
        while True:
            try:
                for number, rows in groupby(self._reading.execute(following, (at,)), lambda row: row[key]):
                    whole = list(rows)
                    yield number, whole
                    at = max(at, number)  # a page that stands in the place of another begins with smaller ones
                return
            except SqliteError as error:
                if not _proves(error):
                    raise
            found = self._skip(statement("rows_of", name, columns), at, last, holes)
            if found is None:
                return
            at, rows_there = found
            if rows_there:
                yield at, rows_there

    def _skip(self, question: str, at: int, last: int, holes: Holes) -> tuple[int, list[Row]] | None:
        """Behind `at`, the next number of which it can be said what there is of it; `None` where there is none."""
        for number in range(at + 1, last + 1):
            try:
                return number, self._reading.execute(question, (number,)).fetchall()
            except SqliteError as error:
                if not _proves(error):
                    raise
                holes.add(number)
        return None

    def indexed(self, index: str) -> Iterator[tuple[int, int | None]]:
        """What an index of a large table says is there, as far as it can be read: number of the message, and recipient.

        A page that stands in the place of another, or is older than it was, is right by its checksum; the index tells.
        """
        try:
            yield from map(tuple, self._reading.execute(REPAIR_SQL[index]))
        except SqliteError as error:
            if not _proves(error):
                raise

    def unverified(self, name: str, columns: str, number: int) -> list[Row]:
        """Rows of a large table by the number of a message, of whatever page, for a caller that can tell."""
        return _rows(self._lax, statement("rows_of", name, columns), (number,)) or []


def _connect(copy: Path, *, verify: bool) -> sqlite3.Connection:
    connection: sqlite3.Connection = LIBRARY.connect(copy, isolation_level=None, check_same_thread=False)
    connection.row_factory = LIBRARY.Row
    for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    if not verify:
        with contextlib.suppress(LIBRARY.Error):  # a library without the extension verifies nothing
            connection.execute("PRAGMA checksum_verification=OFF").fetchall()
    return connection


def _is_over(step: Step) -> bool:
    """Whether what takes long is to be ended: SQLite then raises that it was interrupted."""
    try:
        step("check", 0, 1)
    except Exception:  # whoever asked knows why
        return True
    return False


def _schema(connection: sqlite3.Connection) -> list[Any] | None:
    rows = _rows(connection, REPAIR_SQL["schema_rows"])
    return None if rows is None else [tuple(row) for row in rows]


def _our_schema() -> list[Any] | None:
    with contextlib.closing(LIBRARY.connect(":memory:", isolation_level=None)) as empty:
        empty.executescript(SCHEMA)
        return _schema(empty)


def _rows(connection: sqlite3.Connection, question: str, given: tuple[int, ...] = ()) -> list[Row] | None:
    """All that is asked for, or `None` where the copy is at fault."""
    try:
        return connection.execute(question, given).fetchall()
    except SqliteError as error:
        if not _proves(error):
            raise
        return None


def _answer(connection: sqlite3.Connection, question: str) -> Any:
    """The first value, or `None` where there is none or the copy is at fault."""
    rows = _rows(connection, question)
    return rows[0][0] if rows else None


def _proves(error: Exception) -> bool:
    """Whether the copy is at fault: beside proven damage, a schema without our names, and text that is none."""
    code = getattr(error, "sqlite_errorcode", None)
    return is_damage(error) or code is None or code & 0xFF == LIBRARY.SQLITE_ERROR
