"""The jump: what makes a state that lacks messages go on behind all numbers that were given.

A restore and a repair with losses are recorded alike: what each channel lacks, or passes over, is told to its receivers
and stands in ranges. So is what a channel has passed over that is not in this state and comes into being again
(`lose_before_channel`): it begins behind all jumps.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from adapter.core.alarms import Alarm
from adapter.core.losses import NO_LOSSES, Jump, Losses
from adapter.core.tallies import Tally
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.rows import write_rows
from adapter.store.tallies import tally_row
from shared.lost_ranges import LostRange


@dataclass(frozen=True, slots=True)
class Loss:
    """What a state in the place of the store has cost.

    `topologies_end` is the first version of the topology that nobody can have been given, 0 where the present one is
    known to be the newest. `known` are ranges below the newest of their channels. `alarm` tells of it.
    """

    jump: Jump
    topologies_end: int
    as_of_us: int
    alarm: Alarm
    known: Sequence[tuple[str, LostRange]] = ()


def record_loss(connection: sqlite3.Connection, loss: Loss, now_us: int) -> None:
    """Record it, pass over all numbers below the end, and have it told at the next start. Runs inside a transaction.

    A version of the topology is made of the one in force, so that its number does not go back either.
    """
    jump = loss.jump
    base = connection.execute(SQL["sequence_base"]).fetchone()[0]
    row = jump.end, now_us, loss.as_of_us, jump.last_message_id + 1, max(jump.by, jump.floor - base)
    connection.execute(SQL["insert_restore"], row)
    connection.executemany(SQL["lose_range"], [(*lost, channel) for channel, lost in loss.known])
    connection.execute(SQL["lose_ranges"], (jump.by, jump.floor))
    connection.execute(SQL["jump_sequences"], (jump.by, jump.floor, jump.end - 1))
    newest = connection.execute(SQL["last_topology"]).fetchone()[0] or 0
    if newest and newest < loss.topologies_end:
        connection.execute(SQL["renumber_topology"], (loss.topologies_end, now_us))
        connection.execute(SQL["supersede_topologies"], (loss.topologies_end,))
        connection.execute(SQL["overtake_proposals"])
    leave_word(connection, loss.alarm, now_us)


def leave_word(connection: sqlite3.Connection, alarm: Alarm, now_us: int) -> None:
    """Have the next start tell of it, whatever becomes of whoever knows it now. Runs inside a transaction."""
    write_rows(connection, "save_tallies", [tally_row(alarm, Tally(1, now_us, 1, now_us, [now_us]))])


def read_losses(connection: sqlite3.Connection, names: Names) -> Losses:
    """What is recorded; it is small: a row for each channel and restore, and for each hole that a repair has left."""
    newest = connection.execute(SQL["newest_restore"]).fetchone()
    if newest is None:
        return NO_LOSSES
    ranges: dict[str, tuple[tuple[int, LostRange], ...]] = {}
    for channel_id, first, last, restore in connection.execute(SQL["lost_ranges"]):
        channel = names.channel_names[channel_id]
        ranges[channel] = (*ranges.get(channel, ()), (restore, LostRange(first, last)))
    number, as_of_us = newest
    return Losses(number, as_of_us, connection.execute(SQL["sequence_base"]).fetchone()[0], ranges)
