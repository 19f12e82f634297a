"""A new store from what can be read of a damaged one, and from a backup for what cannot.

Messages never change, so a copy in the backup is as good. What the new store lacks is named
(`adapter/core/repair_losses.py`); whether it may be put in place is decided elsewhere. Nothing here writes to any other
file than the new one.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.losses import Jump
from adapter.core.repair_losses import Holes, Losses, LostRange, Missing, lost_ranges, unrecorded
from adapter.store.full_check import check_everything
from adapter.store.jump import Loss, leave_word, read_losses, record_loss
from adapter.store.names import Names
from adapter.store.proof import is_proven
from adapter.store.queries import MIGRATIONS, READABLE, REPAIR_SQL, SCHEMA, SQL
from adapter.store.rebuilt_deliveries import Deliveries
from adapter.store.rebuilt_rows import KEYED, counted_messages, insert_rows, statement, table_columns
from adapter.store.replacing import KEPT
from adapter.store.reserve import Reserved, end_of_given
from adapter.store.salvage import Row, Salvage, Step
from shared.database import QUIET_STORE, Damage, SqliteError, open_database
from shared.database.backup import connect_copy
from shared.database.library import LIBRARY
from shared.database.migrations import version_of
from shared.durable_files import sync_file
from shared.lost_ranges import LostRange as Recorded
from shared.names import ADAPTER

_RENEWED: Final = frozenset({"proofs", "tallies", "last_seen", "announced"})
"""Small tables that the backup's state, or none, is good enough for: alarms are told again, and agents seen again. All
others, also those that are yet to come, only a human may do without."""

_MADE_ANEW: Final = frozenset({*KEYED, "held_messages"})
"""Tables that are not taken over whole, but row by row, or made of others."""

_COUNTED: Final = frozenset({"channels", "restores"})
"""Tables that tell which sequences were given."""

_REASON_CHARS_MAX: Final = 500

_MISSING: Final = ("missing_sequences", "missing_ends")
_ROWS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of it. `losses` is what the new store lacks; `from_backup` counts messages that only the backup had;
    `redelivered` those whose deliveries could not be read, and are handed over again."""

    losses: Losses
    messages: int
    from_backup: int
    redelivered: int

    def __str__(self) -> str:
        """For a human, in one line."""
        parts = [f"{self.messages} messages"]
        if self.from_backup:
            parts.append(f"{self.from_backup} of them from the backup")
        if self.redelivered:
            parts.append(f"{self.redelivered} deliveries may be handed over again")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the store beside what can be read of it: the newest message that was ever seen in it, which
    numbers may have been given, and the channels that there are."""

    seen: int
    reserved: Reserved | None
    channels: Collection[str]


def rebuild(salvage: Salvage, backup: Path | None, new: Path, known: Known, now_us: int, step: Step) -> Rebuilt:
    """Make `new`, which is not there.

    Takes seconds for each gigabyte, and is for a thread of its own. Raises `Damage` where not even that can be done,
    what SQLite and the system raise, and what `step` raises.
    """
    asyncio.run(_make(new))
    with (
        contextlib.closing(_connect_backup(backup)) as source,
        contextlib.closing(_connect_new(new)) as target,
    ):
        rebuilt = _Rebuilding(salvage, source, target, known, step).run(now_us)
        target.execute("COMMIT")
    sync_file(new)
    faults = check_everything(new, step).faults
    if faults:
        raise Damage(f"what was put together is not right: {'; '.join(faults[:3])}")
    return rebuilt


async def _make(new: Path) -> None:
    """An empty store, in one file."""
    database = await open_database(new, SCHEMA, QUIET_STORE, MIGRATIONS)
    await database.settle()
    await database.close()
    new.with_name(new.name + "-mark").unlink(missing_ok=True)


def _connect_new(new: Path) -> sqlite3.Connection:
    """A file that is thrown away whole if this fails: nothing of it need be safe before the end."""
    connection: sqlite3.Connection = LIBRARY.connect(new, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=DELETE", "journal_mode=MEMORY", "synchronous=OFF", "cache_size=-65536"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    connection.execute(REPAIR_SQL["unsure"])
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _connect_backup(backup: Path | None) -> sqlite3.Connection:
    """The backup, which was verified; or an empty database where there is none, or one of another version."""
    if backup is not None:
        connection = connect_copy(backup)
        if version_of(connection) in READABLE:
            connection.row_factory = LIBRARY.Row
            return connection
        connection.close()
    empty: sqlite3.Connection = LIBRARY.connect(":memory:", isolation_level=None, check_same_thread=False)
    empty.executescript(SCHEMA)
    empty.row_factory = LIBRARY.Row
    return empty


class _Rebuilding:
    """The work of one rebuilding, table by table."""

    def __init__(
        self, salvage: Salvage, backup: sqlite3.Connection, target: sqlite3.Connection, known: Known, step: Step
    ) -> None:
        self._salvage = salvage
        self._backup = backup
        self._target = target
        self._known = known
        self._step = step
        self._columns = _columns(target)
        self._holes = Holes()
        self._others: list[str] = []
        self._counted = True
        self._topologies_known = True
        self._from_backup = 0

    def run(self, now_us: int) -> Rebuilt:
        """Fill the new store, and say what is missing."""
        target, salvage = self._target, self._salvage
        for name in self._columns.keys() - _MADE_ANEW:
            self._copy_table(name)
        accounted, counted = counted_messages(self._backup), counted_messages(target)
        self._judge_end(counted)
        last = max(accounted, counted, self._known.seen, salvage.newest("messages"), salvage.newest("deliveries"))
        self._copy_messages(last)
        self._fetch_messages(self._holes.numbers())
        deliveries = Deliveries(salvage, self._backup, target, self._step)
        deliveries.copy(last, now_us)
        self._fetch_messages(deliveries.orphans())
        deliveries.settle(now_us)
        self._raise_counters()
        target.execute(REPAIR_SQL["hold_below_floors"])
        known = lost_ranges(self._missing(), self._holes.beyond(accounted))
        losses = Losses([*known, *self._unknown_ranges()], [*self._others, *deliveries.doubts])
        (messages,) = target.execute(REPAIR_SQL["count_messages"]).fetchone()
        rebuilt = Rebuilt(losses, messages, self._from_backup, deliveries.redelivered)
        if losses.nothing:
            words = f"it was damaged and is repaired: {rebuilt}; the damaged files are in a folder of {KEPT}"
            leave_word(target, Alarm(AlarmKind.STORE, ADAPTER, words), now_us)
        else:
            self._record(losses, last, now_us)
        return rebuilt

    @property
    def _is_end_known(self) -> bool:
        return self._counted and self._holes.open is None

    def _missing(self) -> Iterator[Missing]:
        """What no message has, and was not lost before."""
        names = Names.register(self._target, (), ())
        recorded = {each: losses.of(each) for losses in [read_losses(self._target, names)] for each in losses.ranges}
        rows = (Missing(*row) for name in _MISSING for row in self._target.execute(REPAIR_SQL[name]))
        return unrecorded(rows, recorded)

    def _unknown_ranges(self) -> list[LostRange]:
        """Where the end is not known, whatever came behind what is there."""
        if self._is_end_known:
            return []
        Names.register(self._target, (), self._known.channels)
        return [LostRange(name, last + 1, None) for name, last in self._target.execute(REPAIR_SQL["ends"])]

    def _record(self, losses: Losses, last: int, now_us: int) -> None:
        """Should it be accepted: numbers go on behind all that were given, and all who must know are told."""
        target = self._target
        counted = counted_messages(target)
        topology, as_of_us = (target.execute(SQL[name]).fetchone() for name in ("last_topology", "last_accepted_at"))
        end = end_of_given(self._known.reserved, counted, last, topology[0] or 0)
        jump = Jump.over_nothing(counted) if self._is_end_known else Jump(counted, end.messages_end, self._counted)
        is_newest = self._is_end_known and self._topologies_known
        alarm = Alarm(AlarmKind.REPAIR, ADAPTER, str(losses)[:_REASON_CHARS_MAX])
        known = [(each.channel, Recorded(each.first, each.last)) for each in losses.ranges if each.last is not None]
        loss = Loss(jump, 0 if is_newest else end.topologies_end, as_of_us[0] if as_of_us else 0, alarm, known)
        record_loss(target, loss, now_us)

    def _copy_table(self, name: str) -> None:
        columns = self._columns[name]
        rows = self._salvage.table(name, columns)
        if rows is None:
            kept = self._backup.execute(statement("all_rows", name, columns)).fetchall()
            found = self._salvage.unverified_table(name, columns) if self._salvage.in_order else None
            rows = kept if found is None else found
            if name not in _RENEWED and found is None:
                self._doubt(name, f"it would have the {len(kept)} rows of the backup, and may have changed since")
            elif name not in _RENEWED and (not kept or [*map(tuple, kept)] != [*map(tuple, rows)]):
                self._doubt(name, f"nothing vouches for its {len(rows)} rows")
        try:
            self._insert(name, rows)
        except SqliteError:  # a page that went astray has brought rows of another table
            kept = self._backup.execute(statement("all_rows", name, columns)).fetchall()
            self._target.execute(statement("empty_table", name))
            self._insert(name, kept)
            self._doubt(name, f"its rows are another's; it would have {len(kept)} of the backup")

    def _doubt(self, table: str, why: str) -> None:
        self._others.append(f"the table {table}: {why}")
        self._counted &= table not in _COUNTED
        self._topologies_known &= table != "topologies"

    def _judge_end(self, counted: int) -> None:
        """What is known of messages behind the newest that was counted."""
        salvage = self._salvage
        if not (salvage.verifies or salvage.foreign):
            self._others.append("its pages have no checksums, or say so, and nothing vouches for what is read")
            self._counted = False
        if salvage.lost_commits is not None:
            self._holes.open_from(counted + 1)
            self._others.append(f"commits behind message {counted}: {salvage.lost_commits}")
        elif counted < self._known.seen:
            self._holes.open_from(counted + 1)
            self._others.append(f"commits behind message {counted}: number {self._known.seen} was seen in it")

    def _copy_messages(self, last: int) -> None:
        agents, channels = self._names("agents"), self._names("channels")
        batch: list[Row] = []
        for number, (row,) in self._salvage.groups("messages", self._columns["messages"], last, self._holes):
            if is_proven(row, agents, channels):
                batch.append(row)
            else:
                self._holes.add(number)
            if len(batch) >= _ROWS_AT_ONCE:
                self._insert("messages", batch)
                batch.clear()
                self._step("messages", number, last)
        self._insert("messages", batch)
        for index in ("messages_by_sequence", "messages_by_key"):
            for number, _ in self._salvage.indexed(index):
                if self._target.execute(REPAIR_SQL["is_message"], (number,)).fetchone() is None:
                    self._holes.add(number)

    def _fetch_messages(self, numbers: Sequence[int]) -> None:
        """Look elsewhere for messages that could not be read: at their digests, and in the backup."""
        agents, channels = self._names("agents"), self._names("channels")
        columns = self._columns["messages"]
        from_backup = statement("rows_of", "messages", columns)
        for count, number in enumerate(numbers):
            if count % _ROWS_AT_ONCE == 0:
                self._step("holes", count, len(numbers))
            row = next(iter(self._salvage.unverified("messages", columns, number)), None)
            if row is None or not is_proven(row, agents, channels):
                row = self._backup.execute(from_backup, (number,)).fetchone()
                self._from_backup += row is not None
            if row is None:
                self._holes.add(number)
            else:
                self._holes.remove(number)
                self._insert("messages", [row])

    def _raise_counters(self) -> None:
        before = self._target.execute(REPAIR_SQL["counters"]).fetchall()
        self._target.execute(REPAIR_SQL["raise_counters"])
        if self._target.execute(REPAIR_SQL["counters"]).fetchall() != before:
            self._others.append("counters that were behind what they count: what else was not written is not known")
            self._counted = False

    def _names(self, table: str) -> dict[int, str]:
        return {number: name for number, name, *_ in self._target.execute(SQL[table])}

    def _insert(self, name: str, rows: Sequence[Row]) -> None:
        insert_rows(self._target, name, self._columns[name], rows)


def _columns(connection: sqlite3.Connection) -> dict[str, str]:
    """The columns of each table, in the order in which they are read and written here."""
    tables = [name for kind, name, *_ in connection.execute(REPAIR_SQL["schema_rows"]) if kind == "table"]
    return {name: table_columns(connection, name) for name in tables}
