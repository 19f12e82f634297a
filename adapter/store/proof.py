"""Whether a row is what was stored: its envelope tells, and the digest of that vouches for it."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from adapter.core.expiry import ends_at_us
from adapter.core.routing import order_key
from adapter.store.envelopes import read_stored
from shared.database import Damage
from shared.envelope import ADAPTER_FIELDS, content_sha256
from shared.problems import Problem
from shared.times import iso


def read_envelope(message: sqlite3.Row) -> dict[str, Any] | None:
    """The envelope of a row, or `None` for bytes that are none."""
    try:
        return read_stored(message["envelope"])
    except (Damage, Problem, TypeError, ValueError):
        return None


def is_proven(message: sqlite3.Row, agents: Mapping[int, str], channels: Mapping[int, str]) -> bool:
    """Whether the envelope has the digest that was made of it when it was accepted, and stands in its own row.

    The digest is that of what the sender wrote (`shared/envelope.py`); what the adapter put in is compared with the
    row. Names are by number.
    """
    envelope = read_envelope(message)
    if envelope is None:
        return False
    added = ADAPTER_FIELDS.union(envelope.get("inherited") or ())
    written = {name: value for name, value in envelope.items() if name not in added}
    try:
        return bool(
            content_sha256(written) == message["content_sha256"]
            and envelope["sender"] == agents[message["sender_id"]]
            and envelope["to"] == channels[message["channel_id"]]
            and envelope["channel_sequence_id"] == message["sequence"]
            and envelope["timestamp_iso8601"] == iso(message["accepted_at_us"])
            and envelope["idempotency_key"].replace("-", "").lower() == message["idempotency_key"].hex()
            and envelope.get("task_id") == message["task_id"]
            and envelope.get("parent_task_id") == message["parent_task_id"]
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):  # a row of garbage
        return False


def delivery_constants(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """What every delivery of a message has, by the names of its columns. `expires_at_us` is wall time."""
    return {
        "order_key": order_key(dict(envelope)),
        "critical": int(envelope["priority"] == "critical"),
        "expires_at_us": ends_at_us(envelope.get("deadline"), envelope.get("expires_at")),
    }
