"""Which sequences were handed over, per channel, across restarts; from it gaps are told (promise 9).

What a hand-over adds is kept in memory and joins the next acknowledgement's transaction, so that a poll costs no
commit of its own. If the process dies before, those messages are handed over again, or a gap is told twice: harmless.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from shared.lost_ranges import RESTORED, LostRange
from sidecar.core.gaps import advance, explained, news
from sidecar.store.store import Store, Unit

_LOAD = "SELECT channel, sequence FROM seen"
_SAVE = (
    "INSERT INTO seen (channel, sequence) VALUES (?, ?) "
    "ON CONFLICT (channel) DO UPDATE SET sequence = max(sequence, excluded.sequence)"
)


class Seen:
    """The highest sequence per channel, gaps found but not told yet, and what is known to be lost.

    `restores` names the newest restore or repair of the adapter's store that it has told of since the start.
    """

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}
        self._unsaved: dict[str, int] = {}
        self._untold: list[dict[str, Any]] = []
        self._lost: dict[str, list[LostRange]] = {}
        self._told_lost: set[tuple[str, int]] = set()
        self.restores = 0

    async def load(self, store: Store) -> None:
        """Read what an earlier run saved."""
        self._highest = dict(await store.read(lambda connection: connection.execute(_LOAD).fetchall()))

    def arrived(self, messages: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
        """Note one hand-over of (channel, sequence) and take the gaps to tell with it."""
        moved, gaps = advance(self._highest, messages)
        self._highest.update(moved)
        self._unsaved.update(moved)
        known = [gap for gap in explained(gaps, self._lost) if not self._was_told(gap)]
        told, self._untold = [*self._untold, *known], []
        return told

    def lost(self, restores: int, ranges: Iterable[tuple[str, int, int]]) -> None:
        """The store was put back or repaired, which `restores` names; these (channel, first, last) are lost.

        They are told with the next hand-over, whether or not a message behind them has come.
        """
        fresh: dict[str, list[LostRange]] = {}
        for channel, first, last in ranges:
            fresh.setdefault(channel, []).append(LostRange(first, last))
            self._lost.setdefault(channel, []).append(LostRange(first, last))
        found = news(self._highest, fresh)
        self._told_lost |= {(gap["channel"], gap["to"]) for gap in found}
        self._untold += found
        self.restores = restores

    def _was_told(self, gap: dict[str, Any]) -> bool:
        return gap.get("reason") == RESTORED and (gap["channel"], gap["to"]) in self._told_lost

    def untold(self, gaps: list[dict[str, Any]]) -> None:
        """These did not reach the agent after all; tell them with the next hand-over."""
        self._untold = [*gaps, *self._untold]

    def take_unsaved(self) -> Unit[None] | None:
        """A unit that saves what is not saved yet, or nothing; it counts as saved from here on."""
        unsaved, self._unsaved = self._unsaved, {}
        if not unsaved:
            return None
        return lambda connection: _save(connection, unsaved)


def _save(connection: sqlite3.Connection, unsaved: dict[str, int]) -> None:
    connection.executemany(_SAVE, list(unsaved.items()))
