"""The journal, read through cysystemd: entries under our ids after a place, whatever rotates or is vacuumed meanwhile.

All of libsystemd runs in the event loop's thread: a reader belongs to one thread for its whole life (sd-journal(3)),
and cysystemd holds the interpreter in its calls anyway, so that another thread would not spare the loop anything.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar

from multiclaw.watch.core.entry import JournalEntry, Place
from multiclaw.watch.core.resume import Kept, Resumption, resume

_log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_ROOTS: Final = (Path("/var/log/journal"), Path("/run/log/journal"))
_MACHINE_ID: Final = Path("/etc/machine-id")

_FIELD_BYTES_MAX: Final = 192 * 1024
"""Above what our processes write (64 KiB in a field). Of a compressed field that is longer, only that much is unpacked;
where one of more than a mebibyte is not compressed, cysystemd leaves out the fields after it."""

_LATEST_US: Final = 2**62
_UNREADABLE_MAX: Final = 100
"""Entries in a row that cannot be read, as of a damaged file: then the journal is opened anew."""

_SAME_TIME_MAX: Final = 10_000


class JournalUnavailable(Exception):  # noqa: N818 - what is told to the user
    """The library that reads the journal cannot be loaded; the text says what to install."""


class JournalTrouble(Exception):  # noqa: N818 - it is waited for, and tried again
    """The journal cannot be read now."""


class _Here(Executor):
    """Runs each call at once, in the thread that asks."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class JournalReader:
    """Reads entries that have one of `message_ids`. Opened again after any `JournalTrouble`."""

    def __init__(self, message_ids: Sequence[str]) -> None:
        """Raises `JournalUnavailable`."""
        self._library = _library()
        self._message_ids = message_ids
        self._reader: Any = None
        self._roots: frozenset[tuple[int, int]] = frozenset()
        self._skip: str | None = None
        self.unreadable = 0
        """Entries that were passed over since nothing could be read of them."""
        self.began_after: Place | None = None
        """The entry after which the last `open` began; None where it began elsewhere."""

    async def open(self, last: Place | None, since_us: int | None) -> Resumption:
        """Begin after the last place, or where there is none with the entries since a time, or with what comes now."""
        with _translated():
            self._roots = _roots()
            whole = await self._opened()
            self._reader = await self._opened(self._message_ids)
            self._skip = self.began_after = None
            if last is None:
                await self._begin_anew(since_us, await _newest(whole))
                return Resumption("after", gap=False)
            return await self._resume(whole, last)

    async def read(self, entries_max: int) -> list[JournalEntry]:
        """The next entries; none where all have been read. What cannot be read is counted and passed over."""
        entries: list[JournalEntry] = []
        in_vain = 0
        while len(entries) < entries_max and in_vain < _UNREADABLE_MAX:
            try:
                found = await self._reader.next()
                entry = None if found is None else _entry_of(found)
            except (SystemError, ValueError, OverflowError, OSError) as error:
                _log.warning("entry-unreadable: %s", error)
                in_vain, self.unreadable = in_vain + 1, self.unreadable + 1
                continue
            if entry is None:
                return entries
            in_vain, skip, self._skip = 0, self._skip, None
            if entry.place.identity != skip:
                entries.append(entry)
        if in_vain and not entries:
            raise JournalTrouble(f"{in_vain} entries in a row cannot be read")
        return entries

    def closed_files(self) -> list[Path]:
        """Journals of the whole system that this process may not read; what they hold is not seen."""
        found = [root / "system.journal" for root in _folders()]
        return [path for path in found if path.exists() and not os.access(path, os.R_OK)]

    async def newest(self) -> Place | None:
        """The place of the newest entry of all, ours or not."""
        with _translated():
            return await _newest(await self._opened())

    async def wait(self, seconds: float) -> None:
        """Return when something happened to the journal, or after that long. Nothing that came since `read` is missed.

        Whatever happened, reading goes on: new entries may come with the news of a rotation alone.
        """
        with _translated(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.wait()
        if _roots() != self._roots:  # the library does not see a folder that was not there when it looked
            raise JournalTrouble("the folders of the journal are others than before")

    async def _opened(self, message_ids: Sequence[str] = ()) -> Any:
        asynchronous, modes, rule = self._library
        reader = asynchronous(executor=_Here())
        await reader.open(modes.LOCAL_ONLY)
        reader.data_threshold = _FIELD_BYTES_MAX
        if message_ids:
            _ = reader.fd  # from now on changes are noticed
        rules = None
        for message_id in message_ids:
            one = rule("MESSAGE_ID", message_id)
            rules = one if rules is None else rules | one
        if rules is not None:
            await reader.add_filter(rules)
        return reader

    async def _begin_anew(self, since_us: int | None, newest: Place | None) -> None:
        if since_us is not None:
            await self._reader.seek_realtime_usec(since_us)
        elif newest is not None:
            await self._after(newest)
        else:
            await self._reader.seek_head()

    async def _after(self, place: Place) -> None:
        await self._reader.seek_cursor(place.cursor.encode())
        self._skip, self.began_after = place.identity, place

    async def _resume(self, whole: Any, last: Place) -> Resumption:
        how = await _find(whole, last)
        resumption = resume(last, found=how is not None, kept=await _kept(whole))
        if how == "by-cursor":
            await self._after(last)
        elif how == "by-time" or resumption.begin == "time":
            await self._reader.seek_realtime_usec(last.time_us)
        else:
            await self._reader.seek_head()
        return resumption


def is_there() -> bool:
    """Whether this host keeps a journal."""
    return bool(_roots())


def _library() -> tuple[Any, Any, Any]:
    """Loaded when it is needed: everything else works without it."""
    try:
        from cysystemd.async_reader import AsyncJournalReader  # noqa: PLC0415
        from cysystemd.reader import JournalOpenMode, Rule  # noqa: PLC0415
    except ImportError as error:
        raise JournalUnavailable(
            f"the journal cannot be read: {error}; it needs libsystemd and cysystemd: "
            "apt install libsystemd0, then pip install 'cysystemd>=2,<3' into this environment"
        ) from error
    return AsyncJournalReader, JournalOpenMode, Rule


def _folders() -> list[Path]:
    try:
        machine = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return []
    return [root / machine for root in _ROOTS] if machine else []


def _roots() -> frozenset[tuple[int, int]]:
    found = []
    for folder in _folders():
        with contextlib.suppress(OSError):
            stat = folder.stat()
            found.append((stat.st_dev, stat.st_ino))
    return frozenset(found)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """cysystemd raises `SystemError(words, name)` for every refusal of libsystemd."""
    try:
        yield
    except (SystemError, OSError, ValueError) as error:
        raise JournalTrouble(str(error)) from error


def _entry_of(found: Any) -> JournalEntry:
    return JournalEntry(Place(found.cursor.decode("ascii"), found.get_realtime_usec()), found.data)


def _place(found: Any) -> Place | None:
    return None if found is None else _entry_of(found).place


async def _newest(reader: Any) -> Place | None:
    await reader.seek_realtime_usec(_LATEST_US)
    return _place(await reader.previous())


async def _kept(reader: Any) -> Kept:
    await reader.seek_head()
    oldest = _place(await reader.next())
    return Kept(oldest, await _newest(reader))


async def _find(reader: Any, last: Place) -> Literal["by-cursor", "by-time"] | None:
    """How the entry of a place is found. A seek by cursor can end elsewhere though it is there (systemd#31516)."""
    await reader.seek_cursor(last.cursor.encode())
    found = _place(await reader.next())
    if found is not None and found.identity == last.identity:
        return "by-cursor"
    await reader.seek_realtime_usec(last.time_us)
    for _ in range(_SAME_TIME_MAX):
        found = _place(await reader.next())
        if found is None or found.time_us > last.time_us:
            return None
        if found.identity == last.identity:
            return "by-time"
    return None
