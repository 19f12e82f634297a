"""A backup in the place of the store, by hand: what it costs, and how numbers and deliveries go on.

Nothing of the present store is changed before a finished, verified new file stands beside it; the swap itself survives
a crash at any moment (`adapter/store/replacing.py`), and the old files are kept.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.backup_plan import parse_name
from adapter.core.losses import Jump
from adapter.store.backups import check_room, copy_file
from adapter.store.jump import Loss, record_loss
from adapter.store.queries import MIGRATIONS, SCHEMA, SQL
from adapter.store.replacing import finish_replacement, note_path, replace_store
from adapter.store.reserve import Reserved, end_of_given, read_reserved
from adapter.store.witness import read_witness
from shared.database import (
    Damage,
    SqliteError,
    bring_forward,
    check_version,
    connect_copy,
    connect_to_change,
    read_once,
    transaction,
    unstamp_copy,
    verify_backup,
)
from shared.names import ADAPTER
from shared.times import iso

T = TypeVar("T")

_WHY: Final = "restore"

Progress = Callable[[str], None]
"""Which step begins."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """How far a store has come: its newest message, when that was received (wall time, 0 before the first), and the
    newest version of the topology."""

    last_message_id: int
    accepted_at_us: int
    last_topology: int


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore would do. `present` is the store as it is now, or None where it cannot be read; `seen` the newest
    message that is known of at all. `sure` is false where nothing tells which numbers were given.
    """

    backup: Path
    state: StoreState
    as_of_us: int
    present: StoreState | None
    seen: int
    end: Reserved
    sure: bool

    @property
    def jump(self) -> Jump:
        """How far numbers go on."""
        return Jump(self.state.last_message_id, self.end.messages_end)


def plan_restore(store: Path, backup: Path) -> RestorePlan:
    """Verify a backup, and tell what it would cost to put it in the place of the store; changes nothing.

    For whoever holds the store's lock. Raises `Damage`, `ConfigurationFault` for one that is newer than the program,
    and what SQLite and the system raise.
    """
    finish_replacement(store)
    verify_backup(backup)
    with contextlib.closing(connect_copy(backup)) as connection:
        if connection.execute(SQL["is_a_store"]).fetchone() is None:
            raise Damage(f"{backup} is no backup of an adapter's store")
        check_version(connection, MIGRATIONS)
        state = _state_of(connection)
        proven = connection.execute(SQL["last_proof"]).fetchone()
    present = _present(store)
    known = read_reserved(store)
    seen = max(read_witness(store).last_message_id, state.last_message_id, present.last_message_id if present else 0)
    named = parse_name(backup.name)
    topology = max(state.last_topology, present.last_topology if present else 0)
    end = end_of_given(known, state.last_message_id, seen, topology)
    as_of_us = named.made_at_us if named else max(state.accepted_at_us, proven[0] if proven else 0)
    return RestorePlan(backup, state, as_of_us, present, seen, end, known is not None)


def carry_out(store: Path, plan: RestorePlan, now_us: int, progress: Progress) -> Path:
    """Put the backup in the place of the store, and give the folder where the old files are kept.

    For whoever holds the store's lock. Raises `NoRoomError` and what `plan_restore` raises: the store is then as it
    was.
    """
    new = _prepared(store)
    discard_restore(store)
    try:
        check_room(store.parent, plan.backup.stat().st_size)
        progress("copying")
        copy_file(plan.backup, new)
        progress("renumbering")
        with contextlib.closing(connect_to_change(new)) as connection:
            _revive(connection, plan, now_us)
        progress("verifying")
        verify_backup(new)
        progress("replacing")
        return replace_store(store, new, _WHY, now_us)
    finally:
        new.unlink(missing_ok=True)


def discard_restore(store: Path) -> None:
    """Remove what a restore has made that did not come to its end. Raises `OSError`."""
    if not note_path(store).exists():  # else it is on its way into the place of the store
        for left in (_prepared(store), store.with_name(f"{_prepared(store).name}-journal")):
            left.unlink(missing_ok=True)


def _prepared(store: Path) -> Path:
    return store.with_name(f"{store.name}-restoring")


def _revive(connection: sqlite3.Connection, plan: RestorePlan, now_us: int) -> None:
    bring_forward(connection, SCHEMA, MIGRATIONS)
    with transaction(connection):
        alarm = Alarm(AlarmKind.RESTORE, ADAPTER, f"the state of {iso(plan.as_of_us)}")
        loss = Loss(plan.jump, plan.end.topologies_end, plan.as_of_us, alarm)
        record_loss(connection, loss, now_us)
        connection.execute(SQL["release_leases"])
        unstamp_copy(connection)


def _state_of(connection: sqlite3.Connection) -> StoreState:
    def number(name: str) -> int:
        row = connection.execute(SQL[name]).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    return StoreState(number("last_message_id"), number("last_accepted_at"), number("last_topology"))


def _present(store: Path) -> StoreState | None:
    """As far as it can be read: it may be why somebody restores."""
    if not store.exists() or store.stat().st_size == 0:
        return None
    try:
        return asyncio.run(read_once(store, _state_of))
    except (SqliteError, OSError):
        return None
