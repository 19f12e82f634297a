"""Whether what the store holds is still right and whole: checked at each opening, then page by page in the background
(promise 16). Proof of damage goes to the store, which then stops being ready.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, NamedTuple

from adapter.core.page_scan import SLICE_PAGES, ScanPosition, advance, is_due, wait_us
from adapter.store.witness import Witness, check_complete, check_present, read_witness, write_witness
from shared.background import beside
from shared.clock import Clock
from shared.database import Damage, PageFile, refuse_copy
from shared.times import MICROSECONDS

_log = logging.getLogger(__name__)

_NOTE_US: Final = 60 * MICROSECONDS
_IDLE_SECONDS: Final = 1.0


def _nothing(_: Exception) -> None:
    """Before the store listens."""


class ScanFigures(NamedTuple):
    """`state` is `on`, or `off: ` and why; `pages` are those of the file."""

    state: str
    position: ScanPosition
    pages: int

    @property
    def progress(self) -> float:
        """Of the scan under way, from 0 to 1."""
        return min((self.position.next_page - 1) / self.pages, 1.0) if self.pages else 0.0


class Integrity:
    """The witness and the page file of one store. The store tells it what becomes of its connections."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._witness = Witness()
        self._pages: PageFile | None = None
        self._noted_us = 0
        self._noting = threading.Lock()  # what is noted in a thread as the store closes is noted once more after it
        self.on_damage: Callable[[Exception], None] = _nothing

    def opening(self) -> None:
        """Before the first connection; raises `Damage` where the store must have been and is not, and
        `ConfigurationFault` where there is a backup in its place.
        """
        refuse_copy(self._path)
        self._witness = read_witness(self._path)
        check_present(self._path, self._witness)

    def loaded(self, last_message_id: int) -> None:
        """It was read; raises `Damage` where it has seen fewer messages than we saw in it."""
        check_complete(self._path, self._witness, last_message_id)

    def opened(self) -> None:
        """Its connections are open, and its file can be read beside them."""
        self._pages = PageFile(self._path)
        self._noted_us = self._clock.steady_us()

    def closed(self) -> None:
        """The last connection is closed."""
        if self._pages is not None:
            self._pages.close()
            self._pages = None

    def note(self, last_message_id: int) -> None:
        """Keep in the file beside the store that this message is committed, and how far the scan has come."""
        with self._noting:
            self._witness = Witness(last_message_id, self._witness.scan)
            write_witness(self._path, self._witness)

    def figures(self) -> ScanFigures:
        """How far the scan has come."""
        if self._pages is None:
            return ScanFigures("off: the store is not open", self._witness.scan, 0)
        return ScanFigures(self._pages.checksums, self._witness.scan, self._pages.pages)

    @contextlib.asynccontextmanager
    async def watching(self, interval_us: int, committed: Callable[[], int]) -> AsyncIterator[None]:
        """Scan while the block lasts; `committed` gives the newest message that is committed."""
        async with beside(self._watch(interval_us, committed)):
            yield

    async def _watch(self, interval_us: int, committed: Callable[[], int]) -> None:
        while True:
            try:
                rest_us = await self.scan(interval_us)
                if self._pages is not None and self._clock.steady_us() - self._noted_us >= _NOTE_US:
                    self._noted_us = self._clock.steady_us()
                    await asyncio.to_thread(self.note, committed())
            except Exception:  # an I/O error proves nothing; the store finds out by itself whether it can work
                _log.exception("scan-failed")
                rest_us = None
            await asyncio.sleep(_IDLE_SECONDS if rest_us is None else rest_us / MICROSECONDS)

    async def scan(self, interval_us: int) -> int | None:
        """Verify the next pages of the file where they are due, and say how long to rest before the next ones.

        `None`: nothing is scanned, because the store is not open or has no checksums. Raises `OSError`.
        """
        pages, position = self._pages, self._witness.scan
        if pages is None or pages.checksums != "on":
            return None
        begun_us, now_us, count = self._clock.steady_us(), self._clock.wall_us(), pages.pages
        if is_due(position, interval_us, now_us):
            wrong = await asyncio.to_thread(pages.wrong_pages, position.next_page, SLICE_PAGES)
            if pages is not self._pages:
                return None  # the store was closed meanwhile
            if wrong:
                named = ", ".join(map(str, wrong))
                self.on_damage(Damage(f"the background check has found that these pages are wrong: {named}"))
                return None
            position = advance(position, count, now_us)
            self._witness = Witness(self._witness.last_message_id, position)
        return wait_us(position, count, interval_us, self._clock.steady_us() - begun_us, now_us)
