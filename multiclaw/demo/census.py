"""The census: every acknowledged send accounted for, per recipient, in words where it is not. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from multiclaw.client import Receipt
from multiclaw.demo.ledger import Applied, Sent, digest


@dataclass(frozen=True, slots=True)
class Census:
    """The count, and every violation in words."""

    sends: int
    queued_first: int
    deliveries: int
    violations: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Nothing lost, nothing applied twice, nothing changed, order kept."""
        return not self.violations


def take(sent: Sequence[Sent], receipts: Sequence[Receipt], applied: Mapping[str, Sequence[Applied]]) -> Census:
    """Hold what was sent against what the adapter says of it (`receipts`, in the order of `sent`) and what arrived."""
    violations = [
        *_lost(sent, receipts, applied),
        *_applied_twice(applied),
        *_sequences(receipts),
        *_sender_order(sent, receipts),
        *_receiver_order(applied),
    ]
    queued = sum(entry.first_status == "queued" for entry in sent)
    return Census(len(sent), queued, sum(map(len, applied.values())), tuple(violations))


def _lost(sent: Iterable[Sent], receipts: Iterable[Receipt], applied: Mapping[str, Sequence[Applied]]) -> Iterator[str]:
    arrived = {(agent, entry.key): entry for agent, entries in applied.items() for entry in entries}
    for entry, receipt in zip(sent, receipts, strict=True):
        states = {recipient.agent: recipient.status for recipient in receipt.recipients}
        expected = digest(entry.message["payload"])
        for agent in entry.recipients:
            name = f"{receipt.channel} {receipt.sequence} for {agent}"
            got = arrived.get((agent, entry.key))
            if got is None:
                yield f"lost: {name} was never processed (the adapter says {states.get(agent)!r})"
            elif states.get(agent) != "acked":
                yield f"unaccounted: {name} was processed, and the adapter says {states.get(agent)!r}"
            elif (got.channel, got.sequence) != (receipt.channel, receipt.sequence):
                yield f"renumbered: {name} arrived as {got.channel} {got.sequence}"
            elif got.digest != expected:
                yield f"changed: {name} has other content than was sent"


def _applied_twice(applied: Mapping[str, Sequence[Applied]]) -> Iterator[str]:
    for agent, entries in applied.items():
        for key, count in Counter(entry.key for entry in entries).items():
            if count > 1:
                yield f"applied twice: {agent} processed {key} {count} times"


def _sequences(receipts: Iterable[Receipt]) -> Iterator[str]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for receipt in receipts:
        numbers[receipt.channel or ""].append(receipt.sequence or 0)
    for channel, found in numbers.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield f"sequence: the numbers of {channel} are not 1 to {len(found)}, each once"


def _sender_order(sent: Iterable[Sent], receipts: Iterable[Receipt]) -> Iterator[str]:
    """What one agent sent to one channel, one after the other, keeps that order, outbox or not."""
    last: dict[tuple[str, str], int] = {}
    for entry, receipt in zip(sent, receipts, strict=True):
        key = (entry.agent, receipt.channel or "")
        if (receipt.sequence or 0) < last.get(key, 0):
            yield f"order: {entry.agent}'s {receipt.channel} {receipt.sequence} came before an earlier send of it"
        last[key] = max(last.get(key, 0), receipt.sequence or 0)


def _receiver_order(applied: Mapping[str, Sequence[Applied]]) -> Iterator[str]:
    """Within one order key, messages are processed in commit order: by sequence in a channel, by time across them."""
    for agent, entries in applied.items():
        newest: dict[tuple[tuple[str, str], str], int] = {}
        stamps: dict[tuple[str, str], str] = {}
        for entry in entries:
            line = (entry.order_key, entry.channel)
            if entry.sequence < newest.get(line, 0) or entry.timestamp < stamps.get(entry.order_key, ""):
                yield f"order: {agent} processed {entry.channel} {entry.sequence} after a later one of its key"
            newest[line] = max(newest.get(line, 0), entry.sequence)
            stamps[entry.order_key] = max(stamps.get(entry.order_key, ""), entry.timestamp)
