"""The invariant, checked from outside: what senders and receivers saw, against the store's file.

Each acknowledged send is, for each recipient, in exactly one of {queued, leased, acked, dead}; never in none, never
changed in content, and its (channel, sequence) never changes and is never reused. Receivers get what was sent, in
the order of promise 3, and apply nothing twice.

Nothing of the adapter is used here: its code may be wrong in the same way twice. The file is opened read-only, so
the adapter may be running, stopped or killed.
"""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rfc8785

from tests.support.store_hand import as_sent, reading

STATES = {0: "queued", 1: "leased", 2: "acked", 3: "dead"}

_SET_BY_ADAPTER = {"channel_sequence_id", "timestamp_iso8601", "priority", "inherited"}
_SET_BY_SIDECAR = {"idempotency_key", "sender", "signature", "traceparent", "tracestate"}


@dataclass(frozen=True, slots=True)
class AckedSend:
    """One send that its sender saw a 2xx for. `sequence` and `timestamp` are None where the outbox answered (202)."""

    sender: str
    key: str
    content: Mapping[str, Any]
    sequence: int | None = None
    timestamp: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What deduplication knows it by."""
        return self.sender, self.key.lower()


@dataclass(frozen=True, slots=True)
class HandOver:
    """One message that one receiver got."""

    recipient: str
    delivery_id: str
    attempt: int
    envelope: Mapping[str, Any]


@dataclass(slots=True)
class History:
    """What was seen from outside, in the order it was seen. Note everything; `violations` judges.

    `replayed` names what came back from the dead, by recipient, sender and key: later ones of its line may be done.
    """

    acked: list[AckedSend] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    handed: list[HandOver] = field(default_factory=list)
    applied: list[tuple[str, str, str]] = field(default_factory=list)
    replayed: set[tuple[str, str, str]] = field(default_factory=set)

    def sent(self, sender: str, content: Mapping[str, Any], code: int, answer: Mapping[str, Any]) -> None:
        """A send and what came back: 200 and 201 carry a place, 202 a key, 4xx a refusal; 5xx leave it unknown."""
        key = str(content.get("idempotency_key") or answer.get("idempotency_key"))
        if code in (200, 201):
            place = answer["channel_sequence_id"], answer["timestamp_iso8601"]
            self.acked.append(AckedSend(sender, key, content, *place))
        elif code == 202:
            self.acked.append(AckedSend(sender, key, content))
        elif 400 <= code < 500 and code != 429:
            self.refused.append((sender, key.lower()))

    def received(self, recipient: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """The messages of one answer to a poll."""
        for message in messages:
            hand_over = HandOver(recipient, message["delivery_id"], message["attempt"], message["envelope"])
            self.handed.append(hand_over)

    def apply(self, recipient: str, envelope: Mapping[str, Any]) -> None:
        """The receiver acted on a message, and its ack was (or will be) accepted."""
        self.applied.append((recipient, envelope["sender"], envelope["idempotency_key"].lower()))


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of the store and its deliveries: state by recipient, and why the dead ones are."""

    id: int
    channel: str
    sequence: int
    sender: str
    key: str
    accepted_at_us: int
    envelope: Mapping[str, Any]
    states: Mapping[str, int]
    faults: tuple[str, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """What deduplication knows it by."""
        return self.sender, self.key

    @property
    def place(self) -> str:
        """How violations name it."""
        return f"{self.channel} {self.sequence}"

    @property
    def order_key(self) -> str:
        """The line it stands in (promise 3)."""
        task_id = self.envelope.get("task_id")
        return f"channel {self.channel}" if task_id is None else f"task {task_id}"


@dataclass(frozen=True, slots=True)
class StoreView:
    """What the file holds."""

    messages: list[StoredMessage]
    last_sequences: Mapping[str, int]
    orphans: int

    def census(self) -> Counter[str]:
        """Deliveries by state."""
        states = (state for message in self.messages for state in message.states.values())
        return Counter(STATES.get(state, f"state {state}") for state in states)


def read_store(path: Path) -> StoreView:
    """One snapshot of the file, read-only."""
    with reading(path) as connection:
        connection.execute("BEGIN")
        agents = dict(connection.execute("SELECT id, name FROM agents"))
        known = connection.execute("SELECT id, name, last_sequence FROM channels")
        channels = {number: (name, last) for number, name, last in known}
        rows = list(connection.execute("SELECT message_id, recipient_id, state, token, reason FROM deliveries"))
        messages = list(
            connection.execute(
                "SELECT id, channel_id, sequence, sender_id, idempotency_key, accepted_at_us, envelope "
                "FROM messages ORDER BY id"
            )
        )
    by_message: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for message_id, *rest in rows:
        by_message[message_id].append(tuple(rest))
    stored = [
        StoredMessage(
            number, channels[channel][0], sequence, agents[sender], _uuid(key), at, json.loads(as_sent(envelope)),
            {agents[recipient]: state for recipient, state, _, _ in by_message[number]},
            tuple(_row_faults(agents, by_message.pop(number, []))),
        )
        for number, channel, sequence, sender, key, at, envelope in messages
    ]  # fmt: skip
    return StoreView(stored, dict(channels.values()), sum(map(len, by_message.values())))


def violations(history: History, store_path: Path, members: Mapping[str, Sequence[str]]) -> list[str]:
    """Every way in which the history and the store do not fit together, in words; empty when all is well.

    `members` gives the recipients of each channel, direct ones (`@name`) included.
    """
    view = read_store(store_path)
    by_key = {(message.sender, message.key): message for message in view.messages}
    checks = (
        _store_faults(view, members),
        _sends(history, by_key),
        _acked_places(history),
        _hand_overs(history, by_key),
        _applications(history, by_key),
    )
    return list(itertools.chain.from_iterable(checks))


def _uuid(key: bytes) -> str:
    text = key.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _row_faults(agents: Mapping[int, str], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    for recipient, state, token, reason in rows:
        if state not in STATES:
            yield f"for {agents[recipient]} it is in the unknown state {state}"
        if state == 1 and not token:
            yield f"for {agents[recipient]} it is leased without a token"
        if (state == 3) != (reason is not None):
            yield f"for {agents[recipient]} it is {STATES.get(state)} with the reason {reason!r}"


def _store_faults(view: StoreView, members: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if view.orphans:
        yield f"{view.orphans} deliveries have no message"
    by_channel: dict[str, list[StoredMessage]] = defaultdict(list)
    for message in view.messages:
        by_channel[message.channel].append(message)
        yield from _message_faults(message, set(members.get(message.channel, ())))
    for channel, last in view.last_sequences.items():
        yield from _channel_faults(channel, last, by_channel[channel])


def _message_faults(message: StoredMessage, recipients: set[str]) -> Iterator[str]:
    yield from (f"{message.place}: {fault}" for fault in message.faults)
    for agent in sorted(recipients - set(message.states)):
        yield f"{message.place}: for {agent} it is in none of queued, leased, acked, dead"
    for agent in sorted(set(message.states) - recipients):
        yield f"{message.place}: {agent} has a delivery and is no recipient"
    shown = message.envelope.get("to"), message.envelope.get("channel_sequence_id")
    if shown != (message.channel, message.sequence):
        yield f"{message.place}: the stored envelope says {shown[0]} {shown[1]}"


def _channel_faults(channel: str, last: int, messages: list[StoredMessage]) -> Iterator[str]:
    sequences = [message.sequence for message in messages]
    if sequences != list(range(1, last + 1)):
        yield f"{channel}: sequences in commit order are {_shortened(sequences)}, not 1..{last}"
    for earlier, later in itertools.pairwise(messages):
        if later.accepted_at_us < earlier.accepted_at_us or (
            later.envelope["timestamp_iso8601"] < earlier.envelope["timestamp_iso8601"]
        ):
            yield f"{later.place}: its timestamp is before that of {earlier.place}"


def _sends(history: History, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
    for send in history.acked:
        message = by_key.get(send.identity)
        if message is None:
            yield f"the acknowledged send {send.key} of {send.sender} is not in the store"
            continue
        if message.channel != send.content["to"] or send.sequence not in (None, message.sequence):
            yield f"the send {send.key} was told {send.content['to']} {send.sequence} and stands at {message.place}"
        if send.timestamp not in (None, message.envelope.get("timestamp_iso8601")):
            yield f"{message.place}: its timestamp is not the one the sender was told"
        yield from (f"{message.place}: {fault}" for fault in _content_faults(send, message.envelope))
    for sender, key in history.refused:
        if (sender, key) in by_key and all(send.identity != (sender, key) for send in history.acked):
            yield f"{by_key[sender, key].place}: it was refused to {sender} and is in the store"


def _content_faults(send: AckedSend, stored: Mapping[str, Any]) -> Iterator[str]:
    """What changed between the sender's hands and the store. Key order and the spelling of numbers count."""
    inherited = set(stored.get("inherited") or ())
    added = set(stored) - set(send.content) - _SET_BY_ADAPTER - _SET_BY_SIDECAR - inherited
    if added:
        yield f"it has gained {sorted(added)}"
    if stored.get("sender") != send.sender:
        yield f"its sender is {stored.get('sender')!r} and was {send.sender!r}"
    for name, value in send.content.items():
        if name in _SET_BY_SIDECAR:
            continue
        if name not in stored:
            if value is not None:
                yield f"it has lost {name}"
        elif _written(stored[name]) != _written(value):
            yield f"its {name} has changed"


def _written(value: Any) -> tuple[bytes, str]:
    return rfc8785.dumps(value), json.dumps(value, ensure_ascii=False)


def _acked_places(history: History) -> Iterator[str]:
    keys: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    places: dict[tuple[str, str], set[int]] = defaultdict(set)
    for send in history.acked:
        if send.sequence is not None:
            keys[send.content["to"], send.sequence].add(send.identity)
            places[send.identity].add(send.sequence)
    for (channel, sequence), identities in keys.items():
        if len(identities) > 1:
            yield f"{channel} {sequence} was given to {len(identities)} different sends"
    for (_, key), sequences in places.items():
        if len(sequences) > 1:
            yield f"the send {key} was told different sequences: {sorted(sequences)}"


def _hand_overs(history: History, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
    seen: set[tuple[str, int]] = set()
    newest: dict[tuple[str, str], StoredMessage] = {}
    tokens = Counter(hand_over.delivery_id for hand_over in history.handed)
    yield from (f"the delivery id {token} was used {count} times" for token, count in tokens.items() if count > 1)
    for hand_over in history.handed:
        envelope = hand_over.envelope
        message = by_key.get((envelope["sender"], envelope["idempotency_key"].lower()))
        if message is None:
            yield f"{hand_over.recipient} got {hand_over.delivery_id}, which is not in the store"
            continue
        if _written(envelope) != _written(message.envelope):
            yield f"{message.place}: {hand_over.recipient} got other content than is stored"
        if hand_over.recipient not in message.states:
            yield f"{message.place}: {hand_over.recipient} got it and is no recipient"
        if (hand_over.recipient, *message.identity) in history.replayed:
            continue
        line = hand_over.recipient, message.order_key
        if (hand_over.recipient, message.id) not in seen and line in newest and newest[line].id > message.id:
            yield f"{hand_over.recipient} got {newest[line].place} before {message.place} ({message.order_key})"
        seen.add((hand_over.recipient, message.id))
        if line not in newest or newest[line].id < message.id:
            newest[line] = message


def _applications(history: History, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
    times = Counter(history.applied)
    yield from (
        f"{recipient} applied {key} of {sender} {count} times"
        for (recipient, sender, key), count in times.items()
        if count > 1
    )
    newest: dict[tuple[str, str], StoredMessage] = {}
    for recipient, sender, key in history.applied:
        message = by_key.get((sender, key))
        if message is None:
            yield f"{recipient} applied {key} of {sender}, which is not in the store"
            continue
        if (recipient, sender, key) in history.replayed:
            continue
        line = recipient, message.order_key
        if line in newest and newest[line].id > message.id:
            yield f"{recipient} applied {newest[line].place} before {message.place} ({message.order_key})"
        newest[line] = message


def _shortened(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 12 else f"[{str(numbers[:6])[1:-1]}, ..., {str(numbers[-6:])[1:-1]}]"
