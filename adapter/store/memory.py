"""`StoreTransaction` on dictionaries: an engine without a disk, for simulating weeks of traffic in seconds.

It promises what the SQLite engine promises, durability apart; one conformance suite runs over both.
"""

from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from adapter.core.alarms import Alarm
from adapter.core.appointment import CANCELLED_KEPT_MAX, AppointmentState
from adapter.core.commands import NewMessage, ScheduledSend, Snapshot, StoredSend
from adapter.core.dead_letters import DeadLetter, Filter
from adapter.core.delivery import Delivery, State
from adapter.core.membership import Standing, TopologyVersion
from adapter.core.replay_job import ReplayJob
from adapter.core.retention import Lane, Retained
from adapter.core.tallies import Tally


@dataclass(slots=True)
class MemoryStore:
    """What is committed."""

    messages: dict[int, NewMessage] = field(default_factory=dict)
    by_key: dict[tuple[str, bytes], int] = field(default_factory=dict)
    by_place: dict[tuple[str, int], int] = field(default_factory=dict)
    deliveries: dict[int, dict[str, Delivery]] = field(default_factory=dict)
    letters: dict[tuple[int, str], DeadLetter] = field(default_factory=dict)
    replays: dict[str, ReplayJob] = field(default_factory=dict)
    topologies: dict[int, TopologyVersion] = field(default_factory=dict)
    tallies: dict[Alarm, Tally] = field(default_factory=dict)
    scheduled: dict[tuple[str, bytes], ScheduledSend] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    last_message_id: int = 0
    held: set[int] = field(default_factory=set)
    floors: dict[Lane, int] = field(default_factory=dict)
    trusted_us: int | None = None
    forgotten_us: int = 0

    def snapshot(self) -> Snapshot:
        """What an exchange starts from."""
        newest = next(reversed(self.messages.values()), None)
        rows = (row for _, rows in sorted(self.deliveries.items()) for row in rows.values())
        live = [replace(row) for row in rows if row.state in {State.QUEUED, State.LEASED}]
        stamp_us = newest.accepted_at_us if newest else 0
        sequences, floors = dict(self.sequences), dict(self.floors)
        all_of_them = (one.appointment for one in self.scheduled.values())
        waiting = [one for one in all_of_them if one.standing is not AppointmentState.CANCELLED]
        versions = sorted(self.topologies)
        in_file = max((number for number in versions if self.topologies[number].in_file), default=0)
        topologies = [self.topologies[number] for number in versions if number >= in_file]
        return Snapshot(
            last_message_id=self.last_message_id,
            last_accepted_at_us=stamp_us,
            sequences=sequences,
            live=live,
            tallies={alarm: _copy(tally) for alarm, tally in self.tallies.items()},
            announced=dict(self.announced),
            last_seen=dict(self.last_seen),
            open_dead_letters=sum(letter.closure is None for letter in self.letters.values()),
            floors=floors,
            trusted_us=self.trusted_us,
            forgotten_us=self.forgotten_us,
            replays=sorted(self.replays.values(), key=lambda job: (job.created_at_us, job.id)),
            topologies=[each for each in topologies if each.standing not in {Standing.DENIED, Standing.STALE}],
            last_topology=max(versions, default=0),
            appointments=sorted(waiting, key=lambda one: one.number),
        )

    def keep_newest_cancelled(self) -> None:
        """Forget those that were cancelled long ago: what is saved anew stands last."""
        cancelled = [
            key for key, one in self.scheduled.items() if one.appointment.standing is AppointmentState.CANCELLED
        ]
        for key in cancelled[:-CANCELLED_KEPT_MAX]:
            del self.scheduled[key]

    def forget(self, message_id: int) -> None:
        """Remove a message and everything that refers to it."""
        message = self.messages.pop(message_id)
        del self.by_key[message.send.sender, message.send.idempotency_key]
        del self.by_place[message.send.channel, message.sequence]
        for recipient in self.deliveries.pop(message_id, {}):
            self.letters.pop((message_id, recipient), None)
        self.held.discard(message_id)


class MemoryTransaction:
    """One transaction's view; nothing reaches the store before `commit`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._messages: ChainMap[int, NewMessage] = ChainMap({}, store.messages)
        self._by_key: ChainMap[tuple[str, bytes], int] = ChainMap({}, store.by_key)
        self._by_place: ChainMap[tuple[str, int], int] = ChainMap({}, store.by_place)
        self._deliveries: dict[int, dict[str, Delivery]] = {}
        self._letters: dict[tuple[int, str], DeadLetter] = {}
        self._replays: dict[str, ReplayJob | None] = {}
        self._topologies: ChainMap[int, TopologyVersion] = ChainMap({}, store.topologies)
        self._tallies: dict[Alarm, Tally | None] = {}
        self._scheduled: dict[tuple[str, bytes], ScheduledSend | None] = {}
        self._announced: dict[str, int] = {}
        self._last_seen: dict[str, int] = {}
        self._sequences: dict[str, int] = {}
        self._last_message_id = store.last_message_id
        self._held: set[int] = set()
        self._pruned: set[int] = set()
        self._floors: dict[Lane, int] = {}
        self._clock = store.trusted_us, store.forgotten_us

    def expect(self, keys: Sequence[tuple[str, bytes]]) -> None:
        """See `StoreTransaction`. Everything is at hand."""

    def find_send(self, sender: str, idempotency_key: bytes) -> StoredSend | None:
        """See `StoreTransaction`."""
        message_id = self._by_key.get((sender, idempotency_key))
        if message_id is None or message_id in self._pruned:
            return None
        message = self._messages[message_id]
        send = message.send
        return StoredSend(message_id, send.content_sha256, send.channel, message.sequence, message.accepted_at_us)

    def add_message(self, message: NewMessage) -> None:
        """See `StoreTransaction`."""
        send = message.send
        key, place = (send.sender, send.idempotency_key), (send.channel, message.sequence)
        known = self.find_send(*key) is not None
        if known or message.message_id in self._messages or place in self._by_place:
            raise ValueError(f"message {message.message_id}, its key or its place is taken")
        self._messages[message.message_id] = message
        self._by_key[key] = self._by_place[place] = message.message_id

    def envelope_at(self, channel: str, sequence: int) -> bytes | None:
        """See `StoreTransaction`."""
        message_id = self._by_place.get((channel, sequence))
        if message_id is None or message_id in self._pruned:
            return None
        return self._messages[message_id].envelope

    def find_message(self, channel: str, sequence: int) -> int | None:
        """See `StoreTransaction`."""
        return self._by_place.get((channel, sequence))

    def envelopes(self, message_ids: list[int]) -> Mapping[int, bytes]:
        """See `StoreTransaction`."""
        return {message_id: self._messages[message_id].envelope for message_id in message_ids}

    def deliveries_of(self, message_id: int) -> list[Delivery]:
        """See `StoreTransaction`."""
        return [replace(row) for row in self._rows(message_id).values()]

    def find_delivery(self, message_id: int, recipient: str) -> Delivery | None:
        """See `StoreTransaction`."""
        row = self._rows(message_id).get(recipient)
        return None if row is None else replace(row)

    def save_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """See `StoreTransaction`."""
        for delivery in deliveries:
            row = replace(delivery, before=None, after=None, batch=0)
            self._deliveries.setdefault(delivery.message_id, {})[delivery.recipient] = row

    def find_dead_letter(self, message_id: int, recipient: str) -> DeadLetter | None:
        """See `StoreTransaction`."""
        place = message_id, recipient
        if message_id in self._pruned:
            return None
        return self._letters.get(place) or self._store.letters.get(place)

    def save_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """See `StoreTransaction`."""
        self._letters.update({(letter.message_id, letter.recipient): letter for letter in letters})

    def open_dead_letters(self, wanted: Filter, after: int, limit: int) -> list[int]:
        """See `StoreTransaction`."""
        return [place[0] for place in self._matching(wanted) if place[0] > after][:limit]

    def count_dead_letters(self, wanted: Filter) -> Mapping[str, int]:
        """See `StoreTransaction`."""
        return Counter(recipient for _, recipient in self._matching(wanted))

    def _matching(self, wanted: Filter) -> list[tuple[int, str]]:
        def matches(letter: DeadLetter) -> bool:
            return (
                letter.closure is None
                and wanted.recipient in {None, letter.recipient}
                and wanted.reason in {None, letter.last.reason}
                and (wanted.before_us is None or letter.last.died_at_us < wanted.before_us)
            )

        letters = self._store.letters | self._letters
        return sorted(place for place, letter in letters.items() if matches(letter))

    def save_replays(self, jobs: Iterable[ReplayJob]) -> None:
        """See `StoreTransaction`."""
        self._replays.update({job.id: job for job in jobs})

    def drop_replays(self, ids: Iterable[str]) -> None:
        """See `StoreTransaction`."""
        self._replays.update(dict.fromkeys(ids))

    def find_scheduled(self, sender: str, idempotency_key: bytes) -> ScheduledSend | None:
        """See `StoreTransaction`."""
        key = sender, idempotency_key
        return self._scheduled[key] if key in self._scheduled else self._store.scheduled.get(key)

    def save_scheduled(self, scheduled: ScheduledSend) -> None:
        """See `StoreTransaction`."""
        key = scheduled.appointment.sender, scheduled.appointment.idempotency_key
        self._scheduled.pop(key, None)
        self._scheduled[key] = scheduled

    def drop_scheduled(self, sender: str, idempotency_key: bytes) -> None:
        """See `StoreTransaction`."""
        self._scheduled[sender, idempotency_key] = None

    def save_tallies(self, tallies: Mapping[Alarm, Tally | None]) -> None:
        """See `StoreTransaction`."""
        self._tallies.update({alarm: tally and _copy(tally) for alarm, tally in tallies.items()})

    def save_announced(self, way: str, sequence: int) -> None:
        """See `StoreTransaction`."""
        self._announced[way] = sequence

    def save_last_seen(self, last_seen: Mapping[str, int]) -> None:
        """See `StoreTransaction`."""
        self._last_seen |= last_seen

    def save_sequences(self, sequences: Mapping[str, int], last_message_id: int) -> None:
        """See `StoreTransaction`."""
        self._sequences |= sequences
        self._last_message_id = last_message_id

    def retained(self, channel: str, after_sequence: int, limit: int) -> list[Retained]:
        """See `StoreTransaction`."""
        places = range(after_sequence + 1, self._store.sequences.get(channel, 0) + 1)
        ids = (self._store.by_place.get((channel, sequence)) for sequence in places)
        return self._described(ids, limit)

    def held(self, after_message_id: int, limit: int) -> list[Retained]:
        """See `StoreTransaction`."""
        ids = (message_id for message_id in sorted(self._store.held | self._held) if message_id > after_message_id)
        return self._described(ids, limit)

    def hold(self, message_ids: Sequence[int]) -> None:
        """See `StoreTransaction`."""
        self._held.update(message_ids)

    def prune(self, message_ids: Collection[int]) -> None:
        """See `StoreTransaction`."""
        self._pruned.update(message_ids)

    def space(self) -> tuple[int, int]:
        """See `StoreTransaction`: there is no file."""
        return 0, 0

    def give_back(self, pages: int) -> None:
        """See `StoreTransaction`."""

    def save_floor(self, lane: Lane, sequence: int) -> None:
        """See `StoreTransaction`."""
        self._floors[lane] = sequence

    def save_retention_clock(self, trusted_us: int, forgotten_us: int) -> None:
        """See `StoreTransaction`."""
        self._clock = trusted_us, forgotten_us

    def find_topology(self, version: int) -> TopologyVersion | None:
        """See `StoreTransaction`."""
        return self._topologies.get(version)

    def save_topology(self, version: TopologyVersion) -> None:
        """See `StoreTransaction`."""
        self._topologies[version.version] = version

    def enrol(self, agents: Iterable[str], channels: Iterable[str]) -> None:
        """See `StoreTransaction`. Names need no numbers here."""

    def commit(self) -> None:
        """Everything at once becomes what is committed."""
        store = self._store
        for message_id in self._pruned:  # first: a key that went may have been used anew
            store.forget(message_id)
        store.messages |= self._messages.maps[0]
        store.by_key |= self._by_key.maps[0]
        store.by_place |= self._by_place.maps[0]
        for message_id, rows in self._deliveries.items():
            store.deliveries.setdefault(message_id, {}).update(rows)
        store.letters |= self._letters
        changed = store.replays | self._replays
        store.replays = {job_id: job for job_id, job in changed.items() if job is not None}
        store.topologies |= self._topologies.maps[0]
        tallies = store.tallies | self._tallies
        store.tallies = {alarm: tally for alarm, tally in tallies.items() if tally is not None}
        for key, scheduled in self._scheduled.items():
            store.scheduled.pop(key, None)
            if scheduled is not None:
                store.scheduled[key] = scheduled
        store.keep_newest_cancelled()
        store.announced |= self._announced
        store.last_seen |= self._last_seen
        store.sequences |= self._sequences
        store.last_message_id = self._last_message_id
        store.held |= self._held
        store.floors |= self._floors
        store.trusted_us, store.forgotten_us = self._clock

    def _described(self, message_ids: Iterable[int | None], limit: int) -> list[Retained]:
        there = (message_id for message_id in message_ids if message_id is not None and message_id not in self._pruned)
        return [self._describe(message_id) for message_id in islice(there, limit)]

    def _describe(self, message_id: int) -> Retained:
        message, rows = self._messages[message_id], self._rows(message_id).values()
        live = any(row.state in {State.QUEUED, State.LEASED} for row in rows)
        letters = (self.find_dead_letter(message_id, row.recipient) for row in rows)
        in_use = live or any(letter is not None and letter.closure is None for letter in letters)
        send, size = message.send, len(message.envelope)
        place = send.channel, send.keep_forever, message.sequence
        return Retained(message_id, *place, message.accepted_at_us, size, in_use)

    def _rows(self, message_id: int) -> dict[str, Delivery]:
        if message_id in self._pruned:
            return {}
        return self._store.deliveries.get(message_id, {}) | self._deliveries.get(message_id, {})


def _copy(tally: Tally) -> Tally:
    return replace(tally, recent=list(tally.recent))
