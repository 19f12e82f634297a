"""Sending: deduplication, admission, a place in the channel, and a delivery for each recipient. Part of the exchange.

Who the recipients are is decided here, inside the transaction, so that a send never meets a topology it did not see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from adapter.core.admission import Verdict
from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.books import Books, Decide
from adapter.core.commands import RecipientReport, Scheduled, Send, SendBatch, Sent, StoredSend
from adapter.core.dead_letters import DeadLetter
from adapter.core.delivery import Delivery, Event, State
from adapter.core.expiry import expired
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.rates import Allowances, too_fast
from adapter.core.replies import inherit
from adapter.core.resending import replaced_letter
from adapter.core.reviving import RETRY_AFTER_FULL_SECONDS
from adapter.core.timetable import Timetable
from shared.names import ADAPTER
from shared.problems import Problem
from shared.scheduled import check_times

_RESERVE_USED_UP: Final = "its reserve is used up"


@dataclass(frozen=True, slots=True)
class _Place:
    """A send that is in the store; it is reported once the whole group is decided."""

    stored: StoredSend
    deliveries: list[Delivery]
    duplicate: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    """The outcomes of one request's sends."""

    outcomes: list["_Place | Scheduled | Problem"]


class _Arrival(NamedTuple):
    """A new message before it is stored: whole, what becomes of it at each recipient's queue, and what it replaces."""

    envelope: dict[str, Any]
    verdicts: list[tuple[str, Verdict]]
    replaces: DeadLetter | None


def held_back() -> Problem:
    """The answer to a message whose forerunner must be tried again: sent now, it would overtake it."""
    return Problem("held-back", "An earlier message of this request was not taken; send both again, in order.")


class Sending:
    """Takes messages in."""

    def __init__(self, books: Books, timetable: Timetable) -> None:
        self._books = books
        self._timetable = timetable
        self._allowances = Allowances(books.policy.rates)

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {Send: self.send, SendBatch: self.send_batch}

    def next_due_us(self) -> None:
        """See `Part`: a message is taken or refused at once."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""

    def send(self, send: Send, store: StoreTransaction, now: Now) -> _Place | Scheduled:
        """A place, of which `reported` makes the answer; or that it waits for its time."""
        known = store.find_send(send.sender, send.idempotency_key)
        if known is not None:
            return self._again(send, known, store)
        if send.deliver_at_us is not None or self._timetable.holds(send.sender, send.idempotency_key):
            scheduled = self._schedule(send, store, now)
            if scheduled is not None:
                return scheduled
        arrival = self._arrival(send, store, now)
        self._check_rate(send, now)
        return self._take(send, arrival, store, now)

    def release(self, send: Send, store: StoreTransaction, now: Now) -> None:
        """Send what has waited for its time, or raise what stands in the way now; its rate was counted before."""
        if send.sender not in self._books.topology.roles:
            raise Problem("not-a-member", f"{send.sender!r} is no agent any more.")
        self._take(send, self._arrival(send, store, now), store, now)

    def send_batch(self, batch: SendBatch, store: StoreTransaction, now: Now) -> _Batch:
        """Outcomes in order; after one that must be tried again, none is taken."""
        outcomes: list[_Place | Scheduled | Problem] = []
        for send in batch.sends:
            if outcomes and isinstance(outcomes[-1], Problem) and outcomes[-1].retryable:
                outcomes.append(held_back())
                continue
            try:
                outcomes.append(self.send(send, store, now))
            except Problem as problem:
                outcomes.append(problem)
        return _Batch(outcomes)

    def announce(self, send: Send, store: StoreTransaction, now: Now) -> None:
        """Store a message of the adapter's own, for every recipient whose queue has room.

        It evicts nothing: an alert that did would bring about the next.
        """
        books, limits = self._books, self._books.policy.queue
        stored = books.places.give(send, send.envelope, store, now)
        for recipient in books.topology.recipients(send.channel, send.sender):
            depth = 0 if recipient == ADAPTER else books.mailboxes[recipient].depth
            fits = depth < limits.queue_max + limits.critical_reserve
            verdict = Verdict.ADMIT if fits else Verdict.DEAD_ON_ARRIVAL
            self._deliver(send, stored.message_id, recipient, verdict, store, now)

    def reported(self, outcome: Any) -> Any:
        """What leaves: a send is described as it stands when the whole group is decided."""
        if isinstance(outcome, _Batch):
            return [self.reported(one) for one in outcome.outcomes]
        return self._report(outcome) if isinstance(outcome, _Place) else outcome

    def _schedule(self, send: Send, store: StoreTransaction, now: Now) -> Scheduled | None:
        """What the timetable says to it; None if it is to be sent now."""
        again = self._timetable.again(send, store)
        if again is not None or send.deliver_at_us is None or send.deliver_at_us <= now.wall_us:
            return again
        check_times(send.envelope, now.wall_us)
        recipients = self._books.topology.recipients(send.channel, send.sender)
        replaced_letter(send, recipients, self._books, store)
        inherit(send, self._books.places.last, store.envelope_at)
        self._timetable.check_room(send.sender)
        self._check_rate(send, now)
        return self._timetable.add(send, send.deliver_at_us, store, now)

    def _arrival(self, send: Send, store: StoreTransaction, now: Now) -> _Arrival:
        """All that must be right with it, and everybody it is for; nothing is changed."""
        recipients = self._books.topology.recipients(send.channel, send.sender)
        if send.expires_at_us is not None and send.expires_at_us <= now.wall_us:
            raise expired(send.envelope)
        letter = replaced_letter(send, recipients, self._books, store)
        envelope = inherit(send, self._books.places.last, store.envelope_at)
        return _Arrival(envelope, [(one, self._verdict(one, critical=send.critical)) for one in recipients], letter)

    def _take(self, send: Send, arrival: _Arrival, store: StoreTransaction, now: Now) -> _Place:
        stored = self._books.places.give(send, arrival.envelope, store, now)
        if arrival.replaces is not None:
            self._books.changes.close(arrival.replaces, "resent", now, replaced_by=(stored.channel, stored.sequence))
        deliveries = [
            self._deliver(send, stored.message_id, recipient, verdict, store, now)
            for recipient, verdict in arrival.verdicts
        ]
        return _Place(stored, deliveries, duplicate=False)

    def _again(self, send: Send, known: StoredSend, store: StoreTransaction) -> _Place:
        if known.content_sha256 != send.content_sha256:
            raise Problem(
                "idempotency-conflict",
                f"This key was used for other content, at {known.channel} {known.sequence}; use a new key.",
                field="/idempotency_key",
            )
        current = {delivery.recipient: delivery for delivery in store.deliveries_of(known.message_id)}
        members = self._books.topology.members.get(known.channel, ())
        places = {agent: (known.message_id, agent) for agent in (*members, *current)}
        changed = self._books.changes.deliveries
        current |= {agent: changed[place] for agent, place in places.items() if place in changed}
        first = [current.pop(agent) for agent in members if agent in current]  # as they were told before
        return _Place(known, [*first, *current.values()], duplicate=True)

    def _check_rate(self, send: Send, now: Now) -> None:
        """The last check, so that what is refused for another reason costs nothing."""
        bucket = self._allowances.bucket(send.sender, send.rate_class, now.steady_us)
        if not bucket.take(now.steady_us):
            if bucket.is_news(now.steady_us):
                self._books.changes.alarms.append(Alarm(AlarmKind.RATE_LIMIT, send.sender, send.rate_class))
            raise too_fast(bucket, send.rate_class)

    def _verdict(self, recipient: str, *, critical: bool) -> Verdict:
        if recipient == ADAPTER:
            return Verdict.ADMIT
        mailbox = self._books.mailboxes[recipient]
        limits = self._books.policy.queue
        depth = mailbox.depth
        evictable = depth >= limits.queue_max and mailbox.oldest_evictable() is not None
        verdict = limits.admit(depth, critical=critical, evictable=evictable)
        if verdict is Verdict.REFUSE_SEND:
            self._books.changes.alarms.append(Alarm(AlarmKind.QUEUE_FULL, recipient, _RESERVE_USED_UP))
            detail = f"The queue of {recipient!r} holds {depth} messages and takes no more; retry later."
            raise Problem("queue-full", detail, field="/to", retry_after=RETRY_AFTER_FULL_SECONDS)
        return verdict

    def _deliver(
        self, send: Send, message_id: int, recipient: str, verdict: Verdict, store: StoreTransaction, now: Now
    ) -> Delivery:
        expires_at_us = None if send.expires_at_us is None else send.expires_at_us + now.steady_us - now.wall_us
        delivery = Delivery(message_id, recipient, send.order_key, send.critical, expires_at_us)
        if recipient == ADAPTER:
            delivery.state = State.ACKED  # its own copy: it has read it by storing it
        elif verdict is Verdict.DEAD_ON_ARRIVAL:
            delivery.move(Event.EVICT)
        else:
            mailbox = self._books.mailboxes[recipient]
            oldest = mailbox.oldest_evictable() if verdict is Verdict.EVICT_OLDEST else None
            if oldest is not None:
                mailbox.evict(oldest)
                self._books.changes.touch(store, now, oldest)
            mailbox.add(delivery)
        self._books.changes.touch(store, now, delivery)
        return delivery

    def _report(self, place: _Place) -> Sent:
        books, stored = self._books, place.stored
        current = [books.changes.deliveries.get((d.message_id, d.recipient), d) for d in place.deliveries]
        recipients = tuple(
            RecipientReport(
                d.recipient,
                d.state.word,
                d.reason,
                books.mailboxes[d.recipient].depth if d.recipient in books.mailboxes else 0,
                books.last_seen.get(d.recipient),
            )
            for d in current
        )
        return Sent(place.duplicate, stored.channel, stored.sequence, stored.accepted_at_us, recipients)
