"""The length of one store's log, looked at beside the work: its file every time, and what is stuck in it where it is
longer than it ever is when all is well."""

import contextlib
from pathlib import Path
from typing import Final

from shared.database import BUSY_STORE, Database, SqliteError, ThreadEnded, log_bytes, stuck_bytes

STUCK_BYTES_MAX: Final = BUSY_STORE.stuck_bytes_max
STUCK_BYTES_ENDS: Final = BUSY_STORE.stuck_bytes_max // 2


class LogLength:
    """The store tells it which connection writes. `is_stuck` is told to a human; `stuck_bytes` is as of the last look,
    0 where there was no reason to ask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Database | None = None
        self.stuck_bytes = 0
        self.is_stuck = False

    @property
    def bytes(self) -> int:
        """The length of its file now."""
        return log_bytes(self._path)

    def opened(self, writer: Database) -> None:
        """This one writes from now on."""
        self._writer = writer

    def closed(self) -> None:
        """None does, or it has failed."""
        self._writer = None

    async def look(self) -> None:
        """Find out; a store that fails tells of itself, and nothing is moved in its files."""
        edge = STUCK_BYTES_ENDS if self.is_stuck else STUCK_BYTES_MAX
        writer, stuck = self._writer, 0
        if writer is not None and self.bytes >= edge:
            with contextlib.suppress(SqliteError, ThreadEnded, ValueError):  # ValueError: it was closed meanwhile
                stuck = await writer.run(lambda connection: stuck_bytes(connection, self._path))
        self.stuck_bytes = stuck
        self.is_stuck = stuck >= edge
