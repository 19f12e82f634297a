"""Tallies of alarms as rows."""

import orjson

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.tallies import Tally
from adapter.store.rows import Row


def tally_row(alarm: Alarm, tally: Tally) -> Row:
    """The row of a tally."""
    recent = orjson.dumps(tally.recent).decode()
    counts = (tally.untold, tally.untold_since_us, tally.total, tally.since_us, recent, tally.escalated_us)
    return (*alarm, *counts)


def read_tally(row: Row) -> tuple[Alarm, Tally]:
    """What `tally_row` made."""
    kind, agent, reason, untold, untold_since_us, total, since_us, recent, escalated_us = row
    tally = Tally(untold, untold_since_us, total, since_us, orjson.loads(recent), escalated_us)
    return Alarm(AlarmKind(kind), agent, reason), tally
