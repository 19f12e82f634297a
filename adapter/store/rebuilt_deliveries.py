"""Deliveries and dead letters of a store that is put together again.

A delivery that cannot be read is taken from the backup, where it may be older than it was; where that has none, it is
made anew for those who got the message before it in the channel. Either way it may be handed over once more, which its
receiver absorbs by the memory of what it has processed, for as long as that reaches. What a record of its death says,
holds.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson

from adapter.core.dead_letters import read_history
from adapter.core.delivery import State
from adapter.core.membership import Standing
from adapter.core.repair_losses import Holes
from adapter.core.routing import Topology
from adapter.store.envelopes import read_stored
from adapter.store.proof import delivery_constants
from adapter.store.queries import REPAIR_SQL, SQL
from adapter.store.rebuilt_rows import counted_messages, insert_rows, statement, table_columns
from adapter.store.salvage import Row, Salvage, Step
from adapter.store.topologies import read_topologies_that_count
from shared.limits import PROCESSED_SECONDS_MIN
from shared.names import ADAPTER
from shared.times import MICROSECONDS

REDELIVERED_MAX: Final = 2_000
"""Deliveries that may be handed over again without a human: as many as a few wrong pages hold. Of more than that, most
were received long ago."""

_ROWS_AT_ONCE: Final = 500
_LIVE: Final = (State.QUEUED, State.LEASED)
_CONSTANT: Final = ("order_key", "critical")
_CLOSURES: Final = frozenset({None, "replayed", "resolved", "resent"})


class Deliveries:
    """`redelivered` counts messages with deliveries that may be handed over again; `doubts` are for a human."""

    def __init__(self, salvage: Salvage, backup: sqlite3.Connection, target: sqlite3.Connection, step: Step) -> None:
        self._salvage = salvage
        self._backup = backup
        self._target = target
        self._step = step
        self._columns = {name: table_columns(target, name) for name in ("deliveries", "dead_letters")}
        self._names: dict[int, str] = {}
        self._members: Mapping[str, Collection[str]] = {}
        self.redelivered = 0
        self.doubts: list[str] = []

    def copy(self, last: int, now_us: int) -> None:
        """Take over what can be read, and make up for what cannot. The messages are there already."""
        self._names = dict(self._target.execute(SQL["agents"]).fetchall())
        self._members = current_members(self._target)
        holes = Holes()
        self._copy("deliveries", last, holes)
        for number, recipient in self._salvage.indexed("deliveries_live"):
            if self._target.execute(REPAIR_SQL["is_delivery"], (number, recipient)).fetchone() is None:
                holes.add(number)
        for number in holes.numbers():
            self._target.execute(REPAIR_SQL["drop_deliveries_of"], (number,))
        self._make_up(holes.numbers(), now_us)
        letters = Holes()
        self._copy("dead_letters", last, letters)
        for number in letters.numbers():
            self._insert("dead_letters", self._letters(number))
        if not self._salvage.in_order and any(each > counted_messages(self._backup) for each in letters.numbers()):
            self.doubts.append("the records of deaths on pages that cannot be read, and what was decided about them")

    def orphans(self) -> list[int]:
        """Messages that have deliveries and were not found."""
        return [number for (number,) in self._target.execute(REPAIR_SQL["deliveries_without_message"])]

    def settle(self, now_us: int) -> None:
        """Drop what belongs to no message, and have deliveries and the records of their deaths agree."""
        target = self._target
        for name in ("drop_deliveries", "drop_letters", "bury_the_unsure", "bury_the_open", "revive_the_unsure"):
            target.execute(REPAIR_SQL[name])
        target.execute(REPAIR_SQL["letters_of_the_dead"], {"now_us": now_us})
        (bare,) = target.execute(REPAIR_SQL["letters_without_delivery"]).fetchone()
        if bare:
            self.doubts.append(f"the deliveries that {bare} open dead letters are about")
        (again,) = target.execute(REPAIR_SQL["unsure_and_live"]).fetchone()
        self.redelivered = again
        if again > REDELIVERED_MAX:
            self.doubts.append(f"the state of {again} deliveries, which would be handed over again")

    def _copy(self, table: str, last: int, holes: Holes) -> None:
        batch: list[Any] = []
        doubtful = self._salvage.foreign and table == "deliveries"
        for number, rows in self._salvage.groups(table, self._columns[table], last, holes):
            taken = self._agreeing(number, rows) if doubtful else rows
            if taken is None:
                holes.add(number)
            else:
                batch += taken
            if len(batch) >= _ROWS_AT_ONCE:
                self._insert(table, batch)
                batch.clear()
                self._step(table, number, last)
        self._insert(table, batch)

    def _agreeing(self, number: int, rows: Sequence[Row]) -> list[tuple[Any, ...]] | None:
        """Rows that no checksum vouches for, without the times of their leases; `None` where one contradicts its
        message."""
        message = self._target.execute(REPAIR_SQL["message_there"], (number,)).fetchone()
        if message is None:
            return [tuple(row) for row in rows]
        constants = delivery_constants(read_stored(message[3]))
        for row in rows:
            known = row["recipient_id"] in self._names and row["state"] in set(State)
            if not known or any(row[name] != constants[name] for name in _CONSTANT):
                return None
        return [self._released(row, constants["expires_at_us"]) for row in rows]

    def _released(self, row: Row, expires_at_us: int | None) -> tuple[Any, ...]:
        """A row whose lease, if it is under one, has ended."""
        values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a row of SQLite iterates over its values
        values["expires_at_us"] = expires_at_us
        if row["state"] in _LIVE:
            values |= {"state": State.QUEUED, "token": None, "lease_until_us": 0, "not_before_us": 0}
        return tuple(values.values())

    def _make_up(self, numbers: Sequence[int], now_us: int) -> None:
        forgotten_us = now_us - PROCESSED_SECONDS_MIN * MICROSECONDS
        unknown = 0
        for number in numbers:
            message = self._target.execute(REPAIR_SQL["message_there"], (number,)).fetchone()
            if message is None:
                continue
            constants = delivery_constants(read_stored(message[3]))
            rows = self._unverified(number)
            if not rows:
                self._target.execute(REPAIR_SQL["note_unsure"], (number,))
                known = self._of_backup("deliveries", number)
                rows = [self._released(row, constants["expires_at_us"]) for row in known]
                rows = rows or self._anew(number, message[0], message[1], constants)
                unknown += not rows or message[2] < forgotten_us
            insert_rows(self._target, "deliveries", self._columns["deliveries"], rows)
        if unknown:
            self.doubts.append(f"the deliveries of {unknown} messages, which may have been received long ago")

    def _unverified(self, number: int) -> list[tuple[Any, ...]]:
        """Rows of a wrong page, where the file is in order and they agree with their message. A live one is in an index
        too, so that one which ended can be told from one which did not."""
        if not self._salvage.in_order:
            return []
        rows = self._salvage.unverified("deliveries", self._columns["deliveries"], number)
        return self._agreeing(number, rows) or []

    def _anew(self, number: int, channel_id: int, sequence: int, constants: dict[str, Any]) -> list[tuple[Any, ...]]:
        recipients = self._recipients(channel_id, sequence)
        fresh = dict.fromkeys(("handovers", "failures", "cycles", "solo", "lease_until_us", "not_before_us"), 0)
        columns = self._columns["deliveries"].split(", ")
        rows = []
        for recipient in recipients:
            state = State.ACKED if self._names.get(recipient) == ADAPTER else State.QUEUED
            values = fresh | constants | {"message_id": number, "recipient_id": recipient, "state": state}
            rows.append(tuple(values.get(name) for name in columns))
        return rows

    def _recipients(self, channel_id: int, sequence: int) -> list[int]:
        """Those of the message before it in the channel, or of the one after it; else who its members are now."""
        for name in ("recipients_before", "recipients_after"):
            found = [agent for (agent,) in self._target.execute(REPAIR_SQL[name], (channel_id, sequence))]
            if found:
                return found
        (channel,) = self._target.execute(REPAIR_SQL["channel_name"], (channel_id,)).fetchone()
        members = self._members.get(channel, ())
        return [number for number, name in self._names.items() if name in members]

    def _letters(self, number: int) -> list[Row]:
        """Records of wrong pages, where the file is in order and they read as records; else those of the backup."""
        found = self._salvage.unverified("dead_letters", self._columns["dead_letters"], number)
        if self._salvage.in_order and all(row["closure"] in _CLOSURES and _is_history(row["history"]) for row in found):
            return found
        return self._of_backup("dead_letters", number)

    def _of_backup(self, table: str, number: int) -> list[Row]:
        return self._backup.execute(statement("rows_of", table, self._columns[table]), (number,)).fetchall()

    def _insert(self, table: str, rows: Sequence[Any]) -> None:
        insert_rows(self._target, table, self._columns[table], rows)


def current_members(connection: sqlite3.Connection) -> Mapping[str, Collection[str]]:
    """Members by channel, as the topology in force has them; none where there is no such topology, or garbage."""
    try:
        versions = [each for each in read_topologies_that_count(connection) if each.standing is Standing.CURRENT]
    except ValueError:  # nothing vouches for it, which is told
        return {}
    return Topology.of(versions[-1].membership).members if versions else {}


def _is_history(text: str) -> bool:
    try:
        return bool(read_history(orjson.loads(text)))
    except (ValueError, TypeError):
        return False
