"""Conditions that last, across restarts: a sidecar that comes back tells nothing twice, and tells when it is over."""

import sqlite3
from collections.abc import Mapping

from sidecar.core.conditions import Active
from sidecar.store.store import Store, Unit

_LOAD = "SELECT name, since_us, told_us, times FROM conditions"
_CLEAR = "DELETE FROM conditions"
_ADD = "INSERT INTO conditions (name, since_us, told_us, times) VALUES (?, ?, ?, ?)"


async def load(store: Store, now_us: int) -> dict[str, Active]:
    """Those of an earlier run. Its steady clock began elsewhere, so no time of it lies ahead."""
    rows = await store.read(lambda connection: connection.execute(_LOAD).fetchall())
    return {name: Active(min(since_us, now_us), min(told_us, now_us), times) for name, since_us, told_us, times in rows}


def save(active: Mapping[str, Active]) -> Unit[None]:
    """A unit after which these are the ones."""
    rows = [(name, one.since_us, one.told_us, one.times) for name, one in active.items()]

    def unit(connection: sqlite3.Connection) -> None:
        connection.execute(_CLEAR)
        connection.executemany(_ADD, rows)

    return unit
