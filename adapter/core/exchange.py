"""The exchange: every command, decided against the mailboxes and one store transaction.

It lives in the writer's thread and is asked for one group of commands at a time, inside the transaction that will
commit them; what it holds in memory mirrors the committed rows plus that group. If the commit fails, it is thrown
away and made anew from the store, so that memory never runs ahead of the disk.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from adapter.core.admission import Verdict
from adapter.core.alerts import PendingAlerts, dead_letter_alert
from adapter.core.changes import Changes
from adapter.core.commands import (
    Ack,
    Claim,
    Command,
    Extend,
    GiveBack,
    HandedOver,
    Nack,
    NewMessage,
    RecipientReport,
    Replay,
    Resolve,
    Send,
    SendBatch,
    Sent,
    Snapshot,
    StoredSend,
    Tick,
    Unpark,
)
from adapter.core.delivery import Delivery, Event, State
from adapter.core.mailbox import Mailbox
from adapter.core.policy import Now, Policy
from adapter.core.ports import StoreTransaction
from adapter.core.replies import inherit
from adapter.core.reviving import RETRY_AFTER_FULL_SECONDS, Reviving
from adapter.core.settling import Settling
from shared.limits import LEASE_SECONDS_MAX
from shared.names import ADAPTER
from shared.problems import Problem
from shared.strict_json import encode
from shared.times import MICROSECONDS, iso

_LEASE_US_MAX: Final = int(LEASE_SECONDS_MAX * MICROSECONDS)


@dataclass(frozen=True, slots=True)
class _Place:
    """A send that is in the store; it is reported once the whole group is decided."""

    stored: StoredSend
    deliveries: list[Delivery]
    duplicate: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    """The outcomes of one request's sends."""

    outcomes: list["_Place | Problem"]


def held_back() -> Problem:
    """The answer to a message whose forerunner must be tried again: sent now, it would overtake it."""
    return Problem("held-back", "An earlier message of this request was not taken; send both again, in order.")


def _sends(command: Command) -> tuple[Send, ...]:
    if isinstance(command, SendBatch):
        return command.sends
    return (command,) if isinstance(command, Send) else ()


class Exchange:
    """Mailboxes, sequences and parked polls of one deployment."""

    def __init__(
        self, agents: list[str], snapshot: Snapshot, policy: Policy, now: Now, platform: tuple[str, ...] = ()
    ) -> None:
        """`platform` is who is told of dead letters; where that is nobody, no alert is made."""
        self._policy = policy
        self._platform = platform
        self._mailboxes = {agent: Mailbox(agent) for agent in agents}
        self._parked: dict[str, deque[Claim]] = {agent: deque() for agent in agents}
        self._last_seen: dict[str, int] = {}
        self._sequences = dict(snapshot.sequences)
        self._message_ids = itertools.count(snapshot.last_message_id + 1)
        self._last_message_id = snapshot.last_message_id
        self._last_stamp_us = snapshot.last_accepted_at_us
        self._alerts = PendingAlerts(policy.alert_window_us, snapshot.alert_counts, now.steady_us)
        self._changes = Changes(self._alerts if platform else None)
        self._settling = settling = Settling(self._mailboxes, self._changes, policy)
        reviving = Reviving(self._mailboxes, self._changes, policy)
        self._handlers: dict[type, Callable[[Any, StoreTransaction, Now], Any]] = {
            Send: self._send,
            SendBatch: self._send_batch,
            Claim: self._claim,
            Unpark: self._unpark,
            Ack: settling.ack,
            Nack: settling.nack,
            GiveBack: settling.give_back,
            Extend: settling.extend,
            Replay: reviving.replay,
            Resolve: reviving.resolve,
            Tick: self._tick,
        }
        for delivery in snapshot.live:
            self._clamp(delivery, now.steady_us)
            self._mailboxes.setdefault(delivery.recipient, Mailbox(delivery.recipient)).add(delivery)
        self._begin()

    def _begin(self) -> None:
        """Forget what the last group touched."""
        self._changes.clear()
        self._new_sequences: dict[str, int] = {}
        self.handed_over: list[tuple[int, str, list[HandedOver]]] = []

    def apply(self, commands: list[Command], store: StoreTransaction, now: Now) -> list[Any]:
        """Decide a group. Gives an outcome per command, in order; a refused one's outcome is its `Problem`.

        Parked polls that can be served now are, in the same transaction: see `handed_over`, a list of
        (ticket, recipient, messages).
        """
        self._begin()
        store.expect([(send.sender, send.idempotency_key) for command in commands for send in _sends(command)])
        outcomes = [self._apply_one(command, store, now) for command in commands]
        self._serve_parked(store, now)
        self._changes.save(store, now)
        if self._new_sequences:
            store.save_sequences(self._new_sequences, self._last_message_id)
        return [self._reported(outcome) for outcome in outcomes]

    def depths(self) -> dict[str, int]:
        """Live deliveries per agent."""
        return {agent: len(mailbox.live) for agent, mailbox in self._mailboxes.items()}

    def next_due_us(self) -> int | None:
        """When a `Tick` is due, at the earliest."""
        dues = [mailbox.next_due_us() for mailbox in self._mailboxes.values()]
        if self._platform:
            dues.append(self._alerts.next_due_us())
        return min((due for due in dues if due is not None), default=None)

    def _tick(self, tick: Tick, store: StoreTransaction, now: Now) -> None:
        self._settling.tick(tick, store, now)
        if self._platform:
            for subject, count in self._alerts.take_due(now.steady_us).items():
                self._changes.counts[subject] = 0
                self._alert(dead_letter_alert(subject, count, self._platform, self._last_message_id + 1), store, now)

    def _apply_one(self, command: Command, store: StoreTransaction, now: Now) -> Any:
        try:
            return self._handlers[type(command)](command, store, now)
        except Problem as problem:
            return problem

    # Sending

    def _send(self, send: Send, store: StoreTransaction, now: Now) -> _Place:
        known = store.find_send(send.sender, send.idempotency_key)
        if known is not None:
            return self._again(send, known, store)
        if send.expires_at_us is not None and send.expires_at_us <= now.wall_us:
            raise Problem("expired", "expires_at has passed; nothing was sent.", field="/expires_at")
        envelope = inherit(send, self._sequences.get, store.envelope_at)
        verdicts = [self._verdict(recipient, send) for recipient in send.recipients]
        stored = self._store(send, envelope, store, now)
        deliveries = [
            self._deliver(send, stored.message_id, recipient, verdict, store, now)
            for recipient, verdict in zip(send.recipients, verdicts, strict=True)
        ]
        return _Place(stored, deliveries, duplicate=False)

    def _send_batch(self, batch: SendBatch, store: StoreTransaction, now: Now) -> _Batch:
        outcomes: list[_Place | Problem] = []
        for send in batch.sends:
            if outcomes and isinstance(outcomes[-1], Problem) and outcomes[-1].retryable:
                outcomes.append(held_back())
                continue
            try:
                outcomes.append(self._send(send, store, now))
            except Problem as problem:
                outcomes.append(problem)
        return _Batch(outcomes)

    def _again(self, send: Send, known: StoredSend, store: StoreTransaction) -> _Place:
        if known.content_sha256 != send.content_sha256:
            raise Problem(
                "idempotency-conflict",
                f"This key was used for other content, at {known.channel} {known.sequence}; use a new key.",
                field="/idempotency_key",
            )
        current = {delivery.recipient: delivery for delivery in store.deliveries_of(known.message_id)}
        places = {agent: (known.message_id, agent) for agent in (*send.recipients, *current)}
        changed = self._changes.deliveries
        current |= {agent: changed[place] for agent, place in places.items() if place in changed}
        first = [current.pop(agent) for agent in send.recipients if agent in current]  # as they were told before
        return _Place(known, [*first, *current.values()], duplicate=True)

    def _store(self, send: Send, envelope: dict[str, Any], store: StoreTransaction, now: Now) -> StoredSend:
        self._last_stamp_us = stamp_us = max(self._last_stamp_us, now.wall_us)
        self._last_message_id = message_id = next(self._message_ids)
        sequence = self._sequences.get(send.channel, 0) + 1
        self._sequences[send.channel] = self._new_sequences[send.channel] = sequence
        complete = {
            **envelope,
            "channel_sequence_id": sequence,
            "timestamp_iso8601": iso(stamp_us),
            "priority": "critical" if send.critical else "normal",
        }
        store.add_message(NewMessage(message_id, sequence, stamp_us, send, encode(complete)))
        return StoredSend(message_id, send.content_sha256, send.channel, sequence, stamp_us)

    def _verdict(self, recipient: str, send: Send) -> Verdict:
        if recipient == ADAPTER:
            return Verdict.ADMIT
        mailbox = self._mailboxes[recipient]
        limits = self._policy.queue
        depth = len(mailbox.live)
        evictable = depth >= limits.queue_max and mailbox.oldest_evictable() is not None
        verdict = limits.admit(depth, critical=send.critical, evictable=evictable)
        if verdict is Verdict.REFUSE_SEND:
            detail = f"The queue of {recipient!r} holds {depth} messages and takes no more; retry later."
            raise Problem("queue-full", detail, field="/to", retry_after=RETRY_AFTER_FULL_SECONDS)
        return verdict

    def _alert(self, send: Send, store: StoreTransaction, now: Now) -> None:
        """Tell every member whose queue has room. An alert evicts nothing, or it would bring about the next."""
        limits = self._policy.queue
        stored = self._store(send, send.envelope, store, now)
        for recipient in send.recipients:
            depth = 0 if recipient == ADAPTER else len(self._mailboxes[recipient].live)
            fits = depth < limits.queue_max + limits.critical_reserve
            verdict = Verdict.ADMIT if fits else Verdict.DEAD_ON_ARRIVAL
            self._deliver(send, stored.message_id, recipient, verdict, store, now)

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
            mailbox = self._mailboxes[recipient]
            oldest = mailbox.oldest_evictable() if verdict is Verdict.EVICT_OLDEST else None
            if oldest is not None:
                mailbox.evict(oldest)
                self._changes.touch(store, now, oldest)
            mailbox.add(delivery)
        self._changes.touch(store, now, delivery)
        return delivery

    def _reported(self, outcome: Any) -> Any:
        """What leaves: a send is described as it stands when the whole group is decided."""
        if isinstance(outcome, _Batch):
            return [self._reported(one) for one in outcome.outcomes]
        return self._report(outcome) if isinstance(outcome, _Place) else outcome

    def _report(self, place: _Place) -> Sent:
        current = [self._changes.deliveries.get((d.message_id, d.recipient), d) for d in place.deliveries]
        recipients = tuple(
            RecipientReport(
                d.recipient,
                d.state.word,
                d.reason,
                len(self._mailboxes[d.recipient].live) if d.recipient in self._mailboxes else 0,
                self._last_seen.get(d.recipient),
            )
            for d in current
        )
        stored = place.stored
        return Sent(place.duplicate, stored.channel, stored.sequence, stored.accepted_at_us, recipients)

    # Handing over

    def _claim(self, claim: Claim, store: StoreTransaction, now: Now) -> list[HandedOver] | None:
        """Messages, or None when there are none and the claim is parked."""
        self._last_seen[claim.recipient] = now.wall_us
        if claim.lost:
            self._recover(claim, store, now)
        handed = self._hand_over(claim, store, now)
        if handed or not claim.park:
            return handed
        self._parked[claim.recipient].append(claim)
        return None

    def _hand_over(self, claim: Claim, store: StoreTransaction, now: Now) -> list[HandedOver]:
        mailbox = self._mailboxes[claim.recipient]
        lease_until_us = now.steady_us + self._policy.lease_us
        poll_id = claim.poll_id or self._policy.nonce()

        def mint(delivery: Delivery) -> str:
            return f"{delivery.message_id:x}.{delivery.handovers:x}.{poll_id}"

        leased, expired = mailbox.claim(claim.count, now.steady_us, lease_until_us, mint)
        self._changes.touch(store, now, *leased, *expired)
        envelopes = store.envelopes([delivery.message_id for delivery in leased])
        return [HandedOver(d.token or "", d.handovers, d.lease_until_us, envelopes[d.message_id]) for d in leased]

    def _serve_parked(self, store: StoreTransaction, now: Now) -> None:
        for recipient, waiting in self._parked.items():
            while waiting:
                handed = self._hand_over(waiting[0], store, now)
                if not handed:
                    break
                self.handed_over.append((waiting.popleft().ticket, recipient, handed))

    def _unpark(self, unpark: Unpark, *_: object) -> None:
        waiting = self._parked[unpark.recipient]
        self._parked[unpark.recipient] = deque(claim for claim in waiting if claim.ticket != unpark.ticket)

    def _recover(self, claim: Claim, store: StoreTransaction, now: Now) -> None:
        """Give back what was handed to polls whose answers never arrived."""
        mailbox = self._mailboxes[claim.recipient]
        endings = tuple(f".{poll_id}" for poll_id in claim.lost)
        for delivery in list(mailbox.live.values()):
            if delivery.state is State.LEASED and (delivery.token or "").endswith(endings):
                self._changes.touch(store, now, *mailbox.release(delivery))

    def _clamp(self, delivery: Delivery, now_us: int) -> None:
        """A stored deadline was read off an earlier process's clock: it may lie no further off than it ever could."""
        if delivery.state is State.LEASED:
            delivery.lease_until_us = min(delivery.lease_until_us, now_us + _LEASE_US_MAX)
        delivery.not_before_us = min(delivery.not_before_us, now_us + self._policy.retry.cap_us)
