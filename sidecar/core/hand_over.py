"""What a poll's answer holds, as far as the sidecar needs to know."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Handed:
    """One hand-over: its token, what names its message, where it stands in its channel, and the message as it came."""

    delivery_id: str
    sender: str
    idempotency_key: str
    channel: str
    sequence: int
    delivery: dict[str, Any]


def read_hand_over(document: dict[str, Any]) -> tuple[list[Handed], int]:
    """The hand-overs of a poll's answer, and how many could not be read."""
    found = [_read(delivery) for delivery in document.get("messages", ())]
    readable = [handed for handed in found if handed is not None]
    return readable, len(found) - len(readable)


def _read(delivery: dict[str, Any]) -> Handed | None:
    try:
        envelope = delivery["envelope"]
        handed = Handed(
            delivery["delivery_id"],
            envelope["sender"],
            envelope["idempotency_key"],
            envelope["to"],
            envelope["channel_sequence_id"],
            delivery,
        )
    except (KeyError, TypeError):
        return None
    texts = (handed.delivery_id, handed.sender, handed.idempotency_key, handed.channel)
    return handed if all(isinstance(text, str) for text in texts) and isinstance(handed.sequence, int) else None


def read_losses(document: dict[str, Any]) -> tuple[int, list[tuple[str, int, int]]]:
    """The name of the newest restore or repair of the store, 0 where the answer says nothing new, and what (channel,
    first, last) was lost with it."""
    restores = document.get("restores")
    if not isinstance(restores, int):
        return 0, []
    ranges = []
    for each in document.get("lost") or ():
        found = each.get("channel"), each.get("from"), each.get("to")
        if isinstance(found[0], str) and isinstance(found[1], int) and isinstance(found[2], int):
            ranges.append((found[0], found[1], found[2]))
    return restores, ranges
