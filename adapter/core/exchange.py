"""The exchange: every command, decided against the mailboxes and one store transaction.

It lives in the writer's thread and is asked for one group of commands at a time, inside the transaction that will
commit them; what it holds in memory mirrors the committed rows plus that group. If the commit fails, it is thrown
away and made anew from the store, so that memory never runs ahead of the disk.

Its parts decide, each in a file of its own; here they are put together.
"""

from collections.abc import Iterable
from typing import Any, Final

from adapter.core.absence import Absence
from adapter.core.announcing import Announcing
from adapter.core.books import Books, Decide, Part
from adapter.core.commands import Command, HandedOver, Send, SendBatch, Snapshot, Tick
from adapter.core.delivery import Delivery, State, Waiting
from adapter.core.enrolling import Enrolling
from adapter.core.handing import Handing
from adapter.core.inbox import Inbox
from adapter.core.mailbox import Mailbox
from adapter.core.places import Places
from adapter.core.policy import Now, Policy
from adapter.core.ports import StoreTransaction
from adapter.core.pruning import Pruning, PruningFigures
from adapter.core.replaying import Replaying
from adapter.core.reviving import Reviving
from adapter.core.routing import Topology
from adapter.core.scheduling import Scheduling
from adapter.core.sending import Sending
from adapter.core.settling import Settling
from adapter.core.timetable import Timetable
from shared.limits import LEASE_SECONDS_MAX
from shared.names import GOVERNOR, direct_channel
from shared.problems import Problem
from shared.times import MICROSECONDS

_INBOX: Final = direct_channel(GOVERNOR)
_LEASE_US_MAX: Final = int(LEASE_SECONDS_MAX * MICROSECONDS)


def _sends(command: Command) -> tuple[Send, ...]:
    if isinstance(command, SendBatch):
        return command.sends
    return (command,) if isinstance(command, Send) else ()


class Exchange:
    """Mailboxes, sequences and parked polls of one deployment."""

    def __init__(self, topology: Topology, snapshot: Snapshot, policy: Policy, now: Now) -> None:
        mailboxes = {agent: Mailbox(agent) for agent in topology.roles}
        self._books = books = Books(topology, policy, Places(snapshot), mailboxes)
        self._load(snapshot.live, now)
        timetable = Timetable(snapshot.appointments, now)
        self._sending = sending = Sending(books, timetable)
        self._handing = Handing(books)
        reviving = Reviving(books)
        self._announcing = Announcing(books, snapshot, sending.announce, now)
        self._pruning = Pruning(books, snapshot, now)
        self._enrolling = Enrolling(books, snapshot)
        self._parts: tuple[Part, ...] = (
            sending,
            self._handing,
            Settling(books),
            reviving,
            Scheduling(books, timetable, sending.release),
            Replaying(books, snapshot, reviving.replay, now),
            self._enrolling,
            Inbox(books, snapshot),
            Absence(books, snapshot, self._handing.polls, now),
            self._pruning,
            self._announcing,
        )
        self._handlers: dict[type, Decide] = {Tick: self._tick}
        for part in self._parts:
            self._handlers.update(part.handlers())
        self.handed_over: list[tuple[int, str, list[HandedOver]]] = []

    def apply(self, commands: list[Command], store: StoreTransaction, now: Now) -> list[Any]:
        """Decide a group. Gives an outcome per command, in order; a refused one's outcome is its `Problem`.

        Parked polls that can be served now are, in the same transaction: see `handed_over`, a list of
        (ticket, recipient, messages).
        """
        self._books.changes.clear()
        self._books.places.clear()
        store.expect([(send.sender, send.idempotency_key) for command in commands for send in _sends(command)])
        outcomes = [self._apply_one(command, store, now) for command in commands]
        self.handed_over = self._handing.serve_parked(store, now)
        self._announcing.count(store, now)
        self._books.changes.save(store)
        self._books.places.save(store)
        return [self._sending.reported(outcome) for outcome in outcomes]

    @property
    def topology(self) -> Topology:
        """Who the members are after the last group; that of the next one decides anew."""
        return self._books.topology

    @property
    def last_message_id(self) -> int:
        """The newest message that was ever numbered."""
        return self._books.places.last_message_id

    @property
    def last_topology(self) -> int:
        """The newest version of the topology that was ever numbered."""
        return self._enrolling.last_version

    def letters(self) -> int:
        """How many messages were ever sent to the Human Governor."""
        return self._books.places.last(_INBOX)

    def last_seen(self) -> dict[str, int]:
        """When each agent polled last, in wall microseconds; of those that ever did."""
        return dict(self._books.last_seen)

    def depths(self) -> dict[str, int]:
        """Live deliveries per agent."""
        return {agent: mailbox.depth for agent, mailbox in self._books.mailboxes.items()}

    @property
    def pruning(self) -> PruningFigures:
        """What retention has done."""
        return self._pruning.figures

    def next_due_us(self) -> int | None:
        """When a `Tick` is due, at the earliest."""
        return min((due for part in self._parts if (due := part.next_due_us()) is not None), default=None)

    def _apply_one(self, command: Command, store: StoreTransaction, now: Now) -> Any:
        try:
            return self._handlers[type(command)](command, store, now)
        except Problem as problem:
            return problem

    def _tick(self, _: Tick, store: StoreTransaction, now: Now) -> None:
        for part in self._parts:
            part.tick(store, now)

    def _load(self, live: Iterable[Delivery | Waiting], now: Now) -> None:
        mailboxes = self._books.mailboxes
        for delivery in live:
            mailbox = mailboxes.get(delivery.recipient)
            if mailbox is None:
                mailbox = mailboxes[delivery.recipient] = Mailbox(delivery.recipient)
            if isinstance(delivery, Waiting):
                mailbox.wait(delivery)
            else:
                self._clamp(delivery, now.steady_us)
                mailbox.add(delivery)

    def _clamp(self, delivery: Delivery, now_us: int) -> None:
        """A stored deadline was read off an earlier process's clock: it may lie no further off than it ever could."""
        if delivery.state is State.LEASED:
            delivery.lease_until_us = min(delivery.lease_until_us, now_us + _LEASE_US_MAX)
        delivery.not_before_us = min(delivery.not_before_us, now_us + self._books.policy.retry.cap_us)
