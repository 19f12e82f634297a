"""The repair of a store that this process has had open: by itself where nothing is lost, and otherwise not at all.

It runs in a thread of its own, so that `/health` answers meanwhile and says how far it is, and is given up when the
process ends: what it has made by then is removed by the next repair.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from adapter.store.repairing import (
    Prepared,
    discard_repair,
    finish_repair,
    prepare_repair,
    repaired_lately,
)
from adapter.store.room import NoRoomError
from shared.clock import Clock
from shared.database import Damage

_log = logging.getLogger(__name__)

_DECIDE: Final = "see what: multiclaw repair --dry-run; decide: multiclaw repair --accept-loss, or multiclaw restore"


class _GivenUpError(Exception):
    """The process ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kept` is where the damaged files are once a new store is in place of them; None: nothing was changed."""

    kept: Path | None
    words: str
    details: dict[str, Any]


def _no_backup() -> Path | None:
    """Before anybody says where backups are."""
    return None


def _nothing(_: Outcome) -> None:
    """Before anybody listens."""


class Ladder:
    """Repairs one store. `newest_backup` gives the newest one that verifies, or none; it is asked in a thread.

    `on_end` is told what came of each repair. `progress` is what is being done, and how much of it, from 0 to 1.
    """

    def __init__(self, store: Path, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ending = False
        self.newest_backup: Callable[[], Path | None] = _no_backup
        self.on_end: Callable[[Outcome], None] = _nothing
        self.progress: tuple[str, float] | None = None

    def end(self) -> None:
        """The process ends: what is under way is given up."""
        self._ending = True

    async def repair(self) -> str | None:
        """Repair the store, which is closed and proven damaged. Why that could not be, or None: open it again."""
        try:
            outcome = await asyncio.to_thread(self._repair)
        except _GivenUpError:
            return "the repair was given up, because the process ends; the next start begins it anew"
        finally:
            self.progress = None
        self.on_end(outcome)
        return outcome.words if outcome.kept is None else None

    def _repair(self) -> Outcome:
        now_us = self._clock.wall_us()
        earlier = repaired_lately(self._store, now_us)
        if earlier is not None:
            words = f"it was repaired less than a day ago ({earlier}), so the disk or the memory is to be looked at"
            return Outcome(None, f"{words}; then: multiclaw repair", {})
        try:
            prepared = prepare_repair(self._store, self.newest_backup(), now_us, self._step)
            return self._judge(prepared)
        except (Damage, NoRoomError) as error:
            return Outcome(None, f"it cannot be repaired: {error}", {})
        except _GivenUpError:
            raise
        except Exception as error:
            if self._ending:
                raise _GivenUpError from error
            _log.exception("repair-failed")
            return Outcome(None, f"the repair failed: {type(error).__name__}: {error}; try: multiclaw repair", {})

    def _judge(self, prepared: Prepared) -> Outcome:
        if not prepared.rebuilt.losses.nothing:
            discard_repair(self._store)
            words = f"a repair would lose {prepared.rebuilt.losses}; {_DECIDE}"
            return Outcome(None, words, prepared.document())
        kept = finish_repair(self._store, prepared, self._clock.wall_us())
        return Outcome(kept, f"{prepared.rebuilt}; the damaged files are in {kept}", prepared.document())

    def _step(self, what: str, done: int, total: int) -> None:
        self.progress = what, min(done / total, 1.0) if total else 0.0
        if self._ending:
            raise _GivenUpError
