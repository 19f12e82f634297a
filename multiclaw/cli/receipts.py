"""What became of a send, for programs and for people."""

import dataclasses
from typing import Any

from multiclaw.client import Receipt


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """The answer with the names that the API gives it."""
    if receipt.status == "queued":
        return {"status": "queued", "outbox_position": receipt.outbox_position, "idempotency_key": receipt.key}
    if receipt.status == "scheduled":
        return {"status": "scheduled", "deliver_at": receipt.deliver_at, "idempotency_key": receipt.key}
    return {
        "status": receipt.status,
        "channel": receipt.channel,
        "channel_sequence_id": receipt.sequence,
        "timestamp_iso8601": receipt.timestamp,
        "idempotency_key": receipt.key,
        "recipients": [dataclasses.asdict(recipient) for recipient in receipt.recipients],
    }


def receipt_sentence(receipt: Receipt) -> str:
    """In words."""
    if receipt.status == "queued":
        return f"queued in the outbox of the sidecar, place {receipt.outbox_position}; key {receipt.key}"
    if receipt.status == "scheduled":
        return f"scheduled for {receipt.deliver_at}; to cancel: multiclaw scheduled cancel {receipt.key}"
    reached = ", ".join(f"{recipient.agent} {recipient.status}" for recipient in receipt.recipients)
    return f"{receipt.status} as {receipt.channel}#{receipt.sequence}: {reached}; key {receipt.key}"
