"""The jump: what makes an older state of a store go on behind all numbers that were given since.

What each channel passes over is recorded as lost, and told. So is what a channel has passed over that is not in this
state and comes into being again (`lose_before_channel`): it begins behind all jumps.
"""

import sqlite3

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.losses import NO_LOSSES, Jump, Losses
from adapter.core.tallies import Tally
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.reserve import Reserved
from adapter.store.rows import write_rows
from adapter.store.tallies import tally_row
from shared.lost_ranges import LostRange
from shared.names import ADAPTER
from shared.times import iso


def jump(connection: sqlite3.Connection, end: Reserved, as_of_us: int, now_us: int) -> Jump:
    """Pass over all numbers below `end`, record it, and have it told at the next start. Runs inside a transaction.

    A version of the topology is made of the one in force, so that its number does not go back either.
    """
    jumped = Jump(connection.execute(SQL["last_message_id"]).fetchone()[0] or 0, end.messages_end)
    row = jumped.end, now_us, as_of_us, jumped.last_message_id + 1, jumped.by
    connection.execute(SQL["insert_restore"], row)
    if jumped.by:
        connection.execute(SQL["lose_ranges"], (jumped.by,))
        connection.execute(SQL["jump_sequences"], (jumped.by, jumped.end - 1))
    newest = connection.execute(SQL["last_topology"]).fetchone()[0] or 0
    if newest and newest < end.topologies_end:
        connection.execute(SQL["renumber_topology"], (end.topologies_end, now_us))
        connection.execute(SQL["supersede_topologies"], (end.topologies_end,))
        connection.execute(SQL["overtake_proposals"])
    alarm = Alarm(AlarmKind.RESTORE, ADAPTER, f"the state of {iso(as_of_us)}")
    write_rows(connection, "save_tallies", [tally_row(alarm, Tally(1, now_us, 1, now_us, [now_us]))])
    return jumped


def read_losses(connection: sqlite3.Connection, names: Names) -> Losses:
    """What is recorded; it is small: a row for each channel and restore."""
    newest = connection.execute(SQL["newest_restore"]).fetchone()
    if newest is None:
        return NO_LOSSES
    ranges: dict[str, tuple[tuple[int, LostRange], ...]] = {}
    for channel_id, first, last, restore in connection.execute(SQL["lost_ranges"]):
        channel = names.channel_names[channel_id]
        ranges[channel] = (*ranges.get(channel, ()), (restore, LostRange(first, last)))
    number, as_of_us = newest
    return Losses(number, as_of_us, connection.execute(SQL["sequence_base"]).fetchone()[0], ranges)
