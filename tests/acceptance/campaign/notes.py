"""What the agents of a leg saw, and every way in which it may not fit what the store holds."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.invariant import STATES, History, StoredMessage, read_store, violations


@dataclass(slots=True, eq=False)
class Work:
    """One message a receiver acted on; `confirmed` tells what the 2xx to its ack called it, if there was one.

    `careless` is work that the receiver did although it had just failed an earlier message of the line.
    """

    recipient: str
    delivery_id: str
    attempt: int
    envelope: Mapping[str, Any]
    careless: bool = False
    confirmed: str | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        """Recipient, sender and key."""
        return self.recipient, self.envelope["sender"], self.envelope["idempotency_key"]

    @property
    def line(self) -> str:
        """What stands in one line at its recipient: a task, else a channel."""
        return self.envelope.get("task_id") or "channel " + self.envelope["to"]


@dataclass(slots=True)
class Notes:
    """The history of a leg. `faults` are judged where they are seen; the census adds what only the store can tell."""

    history: History = field(default_factory=History)
    worked: list[Work] = field(default_factory=list)
    refused: list[Work] = field(default_factory=list)
    sent_order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    done: dict[tuple[str, str, str], Work] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def sent(self, agent: str, message: Mapping[str, Any], code: int, answer: Mapping[str, Any]) -> None:
        """A send that was answered; the first 2xx of a key is its place in the order of its sender."""
        self.counts[f"send {code}"] += 1
        self.history.sent(agent, message, code, answer)
        key = message["idempotency_key"]
        if code not in (200, 201, 202):
            self.faults.append(f"a good send of {agent} was answered {code}: {answer}")
        elif key not in self.sent_order[agent]:
            self.sent_order[agent].append(key)

    def received(self, agent: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """An answer to a poll. Nothing may come again, as a later attempt, once its ack had a 2xx."""
        self.history.received(agent, messages)
        self.counts["hand-overs"] += len(messages)
        for message in messages:
            envelope = message["envelope"]
            done = self.done.get((agent, envelope["sender"], envelope["idempotency_key"]))
            if done is not None and message["attempt"] > done.attempt:
                place = f"{envelope['to']} {envelope['channel_sequence_id']}"
                again = f"{done.delivery_id} was {done.confirmed} and came again as {message['delivery_id']}"
                self.faults.append(f"{agent}, {place}: {again}")

    def confirm(self, work: Work, word: str) -> None:
        """The ack of `work` had a 2xx that called it `acked` or `deferred`."""
        if work.confirmed is None:
            self.counts[f"acks {word}"] += 1
        work.confirmed = word
        self.done[work.name] = work

    def census(self, store: Path, members: Mapping[str, Sequence[str]]) -> list[str]:
        """Every violation so far."""
        self.history.applied.clear()
        for work in self.worked:  # in the order of the work, whenever its ack was answered
            # a sidecar that is alone cannot tell careless work from good: that order is the receiver's own doing
            if work.confirmed is not None and not (work.careless and work.confirmed == "deferred"):
                self.history.apply(work.recipient, work.envelope)
        found = [*self.faults, *violations(self.history, store, members)]
        by_key = {(message.sender, message.key): message for message in read_store(store).messages}
        return [*found, *self._sender_order(by_key), *self._settled(by_key), *self._never_handed(by_key)]

    def _sender_order(self, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
        """An agent that waits for each 2xx before the next send finds its sends committed in that order."""
        for agent, keys in self.sent_order.items():
            newest: StoredMessage | None = None
            for key in keys:
                message = by_key.get((agent, key))
                if message is None:
                    continue  # the invariant has told it
                if newest is not None and message.id < newest.id:
                    yield f"{agent} sent {message.place} after {newest.place}, and it was committed before"
                newest = message

    def _settled(self, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
        for state, works in ((2, self.worked), (3, self.refused)):
            for work in works:
                message = by_key.get(work.name[1:])
                if message is None or work.confirmed in (None, "deferred"):
                    continue
                found = message.states.get(work.recipient)
                if found != state:
                    word = STATES[found] if found is not None else "no delivery"
                    yield f"{work.recipient} was told that {message.place} is {work.confirmed}; the store says {word}"

    def _never_handed(self, by_key: Mapping[tuple[str, str], StoredMessage]) -> Iterator[str]:
        """What is acked has been in its receiver's hands."""
        handed = {
            (each.recipient, each.envelope["sender"], each.envelope["idempotency_key"]) for each in self.history.handed
        }
        for (sender, key), message in by_key.items():
            for recipient, state in message.states.items():
                if state == 2 and recipient != "adapter" and (recipient, sender, key) not in handed:
                    yield f"{message.place} is acked for {recipient}, who never got it"
