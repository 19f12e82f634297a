"""`StoreTransaction` on SQLite: additions gather and are written in few multi-row statements at the end."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from adapter.core.alarms import Alarm
from adapter.core.appointment import AppointmentState
from adapter.core.commands import NewMessage, ScheduledSend, Snapshot, StoredSend
from adapter.core.dead_letters import DeadLetter, Filter
from adapter.core.delivery import Delivery, State, Waiting
from adapter.core.membership import TopologyVersion
from adapter.core.replay_job import ReplayJob
from adapter.core.retention import Lane, Retained
from adapter.core.tallies import Tally
from adapter.store.envelopes import stored_envelope, to_column
from adapter.store.jump import read_losses
from adapter.store.letters import letter_row, read_dead_letter
from adapter.store.names import Names
from adapter.store.pruning import forget, read_floors, read_held, read_retained
from adapter.store.queries import SQL
from adapter.store.replays import read_replays, replay_row
from adapter.store.rows import Row, read_rows, write_rows
from adapter.store.schedule import forget_cancelled, read_appointments, read_scheduled, scheduled_row
from adapter.store.tallies import read_tally, tally_row
from adapter.store.topologies import read_topologies_that_count, read_topology, topology_row
from shared.database import give_back, read_space

Key = tuple[str, bytes]


class SqliteTransaction:
    """One transaction's view. `flush` writes what it gathered; the caller begins and commits.

    `names` are those that rows can refer to, and more of them after `enrol`: the caller's, once it has committed.
    """

    def __init__(self, connection: sqlite3.Connection, names: Names) -> None:
        self._connection = connection
        self.names = names
        self._added: list[NewMessage] = []
        self._by_key: dict[Key, StoredSend | None] = {}
        self._bodies: dict[int, bytes] = {}
        self._places: dict[tuple[str, int], int] = {}

    def expect(self, keys: Sequence[Key]) -> None:
        """See `StoreTransaction`."""
        ids, names = self.names.agent_ids, self.names
        self._by_key.update(dict.fromkeys(keys))
        wanted = [(ids[sender], key) for sender, key in self._by_key]
        for row in read_rows(self._connection, "find_sends", wanted):
            sender_id, key, message_id, digest, channel_id, sequence, accepted_at_us = row
            known = StoredSend(message_id, digest, names.channel_names[channel_id], sequence, accepted_at_us)
            self._by_key[names.agent_names[sender_id], key] = known

    def find_send(self, sender: str, idempotency_key: bytes) -> StoredSend | None:
        """See `StoreTransaction`."""
        if (sender, idempotency_key) not in self._by_key:
            self.expect([(sender, idempotency_key)])
        return self._by_key[sender, idempotency_key]

    def add_message(self, message: NewMessage) -> None:
        """See `StoreTransaction`."""
        send = message.send
        self._added.append(message)
        self._bodies[message.message_id] = message.envelope
        self._places[send.channel, message.sequence] = message.message_id
        self._by_key[send.sender, send.idempotency_key] = StoredSend(
            message.message_id, send.content_sha256, send.channel, message.sequence, message.accepted_at_us
        )

    def envelope_at(self, channel: str, sequence: int) -> bytes | None:
        """See `StoreTransaction`."""
        fresh = self._places.get((channel, sequence))
        if fresh is not None:
            return self._bodies[fresh]
        row = self._connection.execute(SQL["envelope_at"], (self.names.channel_ids[channel], sequence)).fetchone()
        return None if row is None else stored_envelope(row[0])

    def find_message(self, channel: str, sequence: int) -> int | None:
        """See `StoreTransaction`."""
        place = self.names.channel_ids.get(channel), sequence
        row = self._connection.execute(SQL["message_at"], place).fetchone()
        return self._places.get((channel, sequence)) if row is None else int(row[0])

    def envelopes(self, message_ids: list[int]) -> Mapping[int, bytes]:
        """See `StoreTransaction`. A delivery without its message is a corrupt store."""
        found = {each: self._bodies[each] for each in message_ids if each in self._bodies}
        missing = [(each,) for each in message_ids if each not in found]
        rows = list(read_rows(self._connection, "envelopes", missing))  # whole: one that is damaged ends no statement
        found.update((each, stored_envelope(column)) for each, column in rows)
        if len(found) < len(message_ids):
            raise sqlite3.DatabaseError(f"of messages {message_ids}, which have deliveries, some have no row")
        return found

    def deliveries_of(self, message_id: int) -> list[Delivery]:
        """See `StoreTransaction`."""
        rows = self._connection.execute(SQL["deliveries_of"], (message_id,)).fetchall()
        return [_delivery(row, self.names) for row in rows]

    def find_delivery(self, message_id: int, recipient: str) -> Delivery | None:
        """See `StoreTransaction`."""
        key = (message_id, self.names.agent_ids.get(recipient))
        row = self._connection.execute(SQL["find_delivery"], key).fetchone()
        return None if row is None else _delivery(row, self.names)

    def save_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """See `StoreTransaction`."""
        new: list[Row] = []
        known: list[Row] = []
        for delivery in deliveries:
            if delivery.stored:
                known.append(self._changing(delivery))
            else:
                constant = (delivery.order_key, delivery.critical, delivery.expires_at_us)
                new.append(self._changing(delivery) + constant)
                delivery.stored = True
        write_rows(self._connection, "insert_deliveries", new)
        write_rows(self._connection, "update_deliveries", known)

    def find_dead_letter(self, message_id: int, recipient: str) -> DeadLetter | None:
        """See `StoreTransaction`."""
        key = (message_id, self.names.agent_ids.get(recipient))
        row = self._connection.execute(SQL["find_dead_letter"], key).fetchone()
        return None if row is None else read_dead_letter(row, self.names)

    def save_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "save_dead_letters", [letter_row(letter, self.names) for letter in letters])

    def open_dead_letters(self, wanted: Filter, after: int, limit: int) -> list[int]:
        """See `StoreTransaction`."""
        given = (self.names.agent_ids.get(wanted.recipient or ""), after, wanted.reason, wanted.before_us, limit)
        return [message_id for (message_id,) in self._connection.execute(SQL["open_messages"], given)]

    def count_dead_letters(self, wanted: Filter) -> Mapping[str, int]:
        """See `StoreTransaction`."""
        names = self.names
        wanted_id = None if wanted.recipient is None else names.agent_ids.get(wanted.recipient, 0)
        rows = self._connection.execute(SQL["count_dead_letters"], (wanted_id, wanted.reason, wanted.before_us))
        return {names.agent_names[agent_id]: count for agent_id, count in rows}

    def save_replays(self, jobs: Iterable[ReplayJob]) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "save_replays", [replay_row(job) for job in jobs])

    def drop_replays(self, ids: Iterable[str]) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "drop_replays", [(job_id,) for job_id in ids])

    def find_scheduled(self, sender: str, idempotency_key: bytes) -> ScheduledSend | None:
        """See `StoreTransaction`."""
        key = (idempotency_key, self.names.agent_ids.get(sender))
        row = self._connection.execute(SQL["find_scheduled"], key).fetchone()
        return None if row is None else read_scheduled(row, self.names)

    def save_scheduled(self, scheduled: ScheduledSend) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "save_scheduled", [scheduled_row(scheduled, self.names)])
        if scheduled.appointment.standing is AppointmentState.CANCELLED:
            forget_cancelled(self._connection)

    def drop_scheduled(self, sender: str, idempotency_key: bytes) -> None:
        """See `StoreTransaction`."""
        self._connection.execute(SQL["drop_scheduled"], (idempotency_key, self.names.agent_ids[sender]))

    def save_tallies(self, tallies: Mapping[Alarm, Tally | None]) -> None:
        """See `StoreTransaction`."""
        kept = [tally_row(alarm, tally) for alarm, tally in tallies.items() if tally is not None]
        write_rows(self._connection, "save_tallies", kept)
        for alarm, tally in tallies.items():
            if tally is None:
                self._connection.execute(SQL["forget_tally"], alarm)

    def save_announced(self, way: str, sequence: int) -> None:
        """See `StoreTransaction`."""
        self._connection.execute(SQL["save_announced"], (way, sequence))

    def save_last_seen(self, last_seen: Mapping[str, int]) -> None:
        """See `StoreTransaction`."""
        rows = [(self.names.agent_ids[agent], seen_us) for agent, seen_us in last_seen.items()]
        write_rows(self._connection, "save_last_seen", rows)

    def save_sequences(self, sequences: Mapping[str, int], last_message_id: int) -> None:
        """See `StoreTransaction`."""
        ids = self.names.channel_ids
        rows = [(ids[channel], sequence, last_message_id) for channel, sequence in sequences.items()]
        write_rows(self._connection, "save_sequences", rows)

    def retained(self, channel: str, after_sequence: int, limit: int) -> list[Retained]:
        """See `StoreTransaction`."""
        return read_retained(self._connection, self.names, channel, after_sequence, limit)

    def held(self, after_message_id: int, limit: int) -> list[Retained]:
        """See `StoreTransaction`."""
        return read_held(self._connection, self.names, after_message_id, limit)

    def hold(self, message_ids: Sequence[int]) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "hold", [(message_id,) for message_id in message_ids])

    def prune(self, message_ids: Collection[int]) -> None:
        """See `StoreTransaction`."""
        forget(self._connection, message_ids)
        for key, known in self._by_key.items():
            if known is not None and known.message_id in message_ids:
                self._by_key[key] = None

    def space(self) -> tuple[int, int]:
        """See `StoreTransaction`."""
        return read_space(self._connection)

    def give_back(self, pages: int) -> None:
        """See `StoreTransaction`."""
        give_back(self._connection, pages)

    def save_floor(self, lane: Lane, sequence: int) -> None:
        """See `StoreTransaction`."""
        row = self.names.channel_ids[lane.channel], lane.contract, sequence
        self._connection.execute(SQL["save_floor"], row)

    def save_retention_clock(self, trusted_us: int, forgotten_us: int) -> None:
        """See `StoreTransaction`."""
        self._connection.execute(SQL["save_retention_clock"], (trusted_us, forgotten_us))

    def find_topology(self, version: int) -> TopologyVersion | None:
        """See `StoreTransaction`."""
        return read_topology(self._connection, version)

    def save_topology(self, version: TopologyVersion) -> None:
        """See `StoreTransaction`."""
        write_rows(self._connection, "save_topology", [topology_row(version)])

    def enrol(self, agents: Iterable[str], channels: Iterable[str]) -> None:
        """See `StoreTransaction`."""
        self.names = Names.register(self._connection, agents, channels)

    def flush(self) -> None:
        """Write the messages that were added."""
        write_rows(self._connection, "insert_messages", [self._row(message) for message in self._added])

    def _changing(self, d: Delivery) -> Row:
        """The key of a delivery's row and what changes in it."""
        return (
            d.message_id,
            self.names.agent_ids[d.recipient],
            int(d.state),
            d.handovers,
            d.failures,
            d.solo,
            d.lease_until_us,
            d.not_before_us,
            d.token,
            d.reason,
            d.detail,
            d.result,
            d.cycles,
        )

    def _row(self, message: NewMessage) -> Row:
        send = message.send
        return (
            message.message_id,
            self.names.channel_ids[send.channel],
            message.sequence,
            self.names.agent_ids[send.sender],
            send.idempotency_key,
            send.content_sha256,
            message.accepted_at_us,
            send.keep_forever,
            send.envelope.get("task_id"),
            send.envelope.get("parent_task_id"),
            to_column(message.envelope),
        )


def load_snapshot(connection: sqlite3.Connection, names: Names) -> Snapshot:
    """What the exchange starts from: counters, sequences, and the live deliveries without their bodies."""
    last_message_id = connection.execute(SQL["last_message_id"]).fetchone()[0] or 0
    newest = connection.execute(SQL["last_accepted_at"]).fetchone()
    sequences = {name: last for _, name, last in connection.execute(SQL["channels"])}
    trusted_us, forgotten_us = connection.execute(SQL["retention_clock"]).fetchone() or (None, 0)
    return Snapshot(
        last_message_id=last_message_id,
        last_accepted_at_us=newest[0] if newest else 0,
        sequences=sequences,
        live=_read_live(connection, names),
        tallies=dict(read_tally(row) for row in connection.execute(SQL["tallies"])),
        open_dead_letters=connection.execute(SQL["count_open_dead_letters"]).fetchone()[0],
        last_seen={names.agent_names[agent_id]: seen_us for agent_id, seen_us in connection.execute(SQL["last_seen"])},
        announced=dict(connection.execute(SQL["announced"]).fetchall()),
        floors=read_floors(connection, names),
        trusted_us=trusted_us,
        forgotten_us=forgotten_us,
        replays=read_replays(connection, names),
        topologies=read_topologies_that_count(connection),
        last_topology=connection.execute(SQL["last_topology"]).fetchone()[0] or 0,
        appointments=read_appointments(connection, names),
        losses=read_losses(connection, names),
    )


def _read_live(connection: sqlite3.Connection, names: Names) -> Iterator[Delivery | Waiting]:
    """The live deliveries in commit order. To most nothing has happened, and there may be a hundred thousand: only of
    the others is the whole row read.
    """
    for message_id, recipient_id, order_key, critical, expires_at_us, happened in connection.execute(
        SQL["live_deliveries"]
    ):
        if happened:
            row = connection.execute(SQL["find_delivery"], (message_id, recipient_id)).fetchone()
            yield _delivery(row, names)
        else:
            yield Waiting(message_id, names.agent_names[recipient_id], order_key, bool(critical), expires_at_us)


def _delivery(row: Row, names: Names) -> Delivery:
    return Delivery(
        message_id=row[0],
        recipient=names.agent_names[row[1]],
        state=State(row[2]),
        order_key=row[3],
        critical=bool(row[4]),
        handovers=row[5],
        failures=row[6],
        solo=bool(row[7]),
        expires_at_us=row[8],
        lease_until_us=row[9],
        not_before_us=row[10],
        token=row[11],
        reason=row[12],
        detail=row[13],
        result=row[14],
        cycles=row[15],
        stored=True,
    )
