"""What the exchange asks of a store, inside one transaction. Engines are proven by one conformance suite."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from adapter.core.alarms import Alarm
from adapter.core.commands import NewMessage, ScheduledSend, StoredSend
from adapter.core.dead_letters import DeadLetter, Filter
from adapter.core.delivery import Delivery
from adapter.core.membership import TopologyVersion
from adapter.core.replay_job import ReplayJob
from adapter.core.retention import Lane, Retained
from adapter.core.tallies import Tally


class StoreTransaction(Protocol):
    """Reads see everything this transaction has added. Nothing is visible outside before the commit."""

    def expect(self, keys: Sequence[tuple[str, bytes]]) -> None:
        """Before the sends of a group are decided: by which senders and keys `find_send` will be asked."""

    def find_send(self, sender: str, idempotency_key: bytes) -> StoredSend | None:
        """The send that used this key, if it is remembered."""

    def add_message(self, message: NewMessage) -> None:
        """Store a message under its place in its channel."""

    def envelope_at(self, channel: str, sequence: int) -> bytes | None:
        """The stored envelope at a place, if it is retained."""

    def find_message(self, channel: str, sequence: int) -> int | None:
        """The message at a place, of any channel that ever was, if it is retained."""

    def envelopes(self, message_ids: list[int]) -> Mapping[int, bytes]:
        """The stored envelopes of these messages."""

    def deliveries_of(self, message_id: int) -> list[Delivery]:
        """Every delivery of a message, settled ones included, in no promised order."""

    def find_delivery(self, message_id: int, recipient: str) -> Delivery | None:
        """One delivery, settled or not; None also for a recipient that never was."""

    def save_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """Store these deliveries as they are now, new ones included."""

    def find_dead_letter(self, message_id: int, recipient: str) -> DeadLetter | None:
        """The record of a delivery that died, open or not, as committed."""

    def save_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """Store these records as they are now: one for each message and recipient."""

    def open_dead_letters(self, wanted: Filter, after: int, limit: int) -> list[int]:
        """The messages above `after` of which an open dead letter matches, in order; `wanted.recipient` is given."""

    def count_dead_letters(self, wanted: Filter) -> Mapping[str, int]:
        """How many open dead letters match, by recipient, of those that have any."""

    def save_replays(self, jobs: Iterable[ReplayJob]) -> None:
        """Store these replay jobs as they are now."""

    def drop_replays(self, ids: Iterable[str]) -> None:
        """Forget these replay jobs."""

    def save_tallies(self, tallies: Mapping[Alarm, Tally | None]) -> None:
        """Store how often these alarms were raised; forget those that have no tally any more."""

    def find_scheduled(self, sender: str, idempotency_key: bytes) -> ScheduledSend | None:
        """The scheduled send of this key, failed or cancelled ones included."""

    def save_scheduled(self, scheduled: ScheduledSend) -> None:
        """Store it as it is now: one for each sender and key. Of cancelled ones only the newest are kept."""

    def drop_scheduled(self, sender: str, idempotency_key: bytes) -> None:
        """It was sent: forget it here."""

    def save_announced(self, way: str, sequence: int) -> None:
        """Store up to which message to the Human Governor this way has told."""

    def save_last_seen(self, last_seen: Mapping[str, int]) -> None:
        """Store when these agents polled last, in wall microseconds."""

    def save_sequences(self, sequences: Mapping[str, int], last_message_id: int) -> None:
        """Store the newest sequence of these channels, and the newest message id."""

    def retained(self, channel: str, after_sequence: int, limit: int) -> list[Retained]:
        """What is stored of a channel behind a sequence, in order. What this transaction has added may be missing."""

    def held(self, after_message_id: int, limit: int) -> list[Retained]:
        """Messages that `hold` noted, behind one of them, in order."""

    def hold(self, message_ids: Sequence[int]) -> None:
        """These are too old and in use: note them, to be looked at again."""

    def prune(self, message_ids: Collection[int]) -> None:
        """Forget these messages, their deliveries, dead letters and keys, and that they were held."""

    def space(self) -> tuple[int, int]:
        """Pages of the store, and how many of them are free and could be given back."""

    def give_back(self, pages: int) -> None:
        """Give free pages back to the file system; other pages may be moved for it."""

    def save_floor(self, lane: Lane, sequence: int) -> None:
        """Store how far the scan of a lane has come."""

    def save_retention_clock(self, trusted_us: int, forgotten_us: int) -> None:
        """Store the wall time that is trusted, and before when messages may have been forgotten."""

    def find_topology(self, version: int) -> TopologyVersion | None:
        """A version of the topology, whatever became of it."""

    def save_topology(self, version: TopologyVersion) -> None:
        """Store a version of the topology as it is now."""

    def enrol(self, agents: Iterable[str], channels: Iterable[str]) -> None:
        """These may be named from here on. A channel that was there before goes on with its sequence."""
