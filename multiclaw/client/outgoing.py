"""What leaves: the fields of a message, its bytes, and the receipt that comes back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from multiclaw.client.encoding import encode
from multiclaw.client.errors import InvalidMessage
from multiclaw.client.identifiers import new_key


class SendFields(TypedDict, total=False):
    """What a send may say beside recipient, type and payload; None is the same as leaving it out.

    Times are RFC 3339 text with an offset, or aware datetimes. `idempotency_key` is a UUID; give one only to repeat a
    send of an earlier process, since the client makes its own and keeps it over its retries. `replaces` names a dead
    letter: see `DeadLetters.resend`.
    """

    idempotency_key: str | None
    thread_id: str | None
    correlation_id: str | None
    reply_to_sequence_id: int | None
    task_id: str | None
    parent_task_id: str | None
    deadline: str | datetime | None
    expires_at: str | datetime | None
    deliver_at: str | datetime | None
    context: Any
    receipts: list[dict[str, Any]] | None
    replaces: dict[str, Any] | None
    usage: dict[str, Any] | None
    traceparent: str | None
    tracestate: str | None


_FIELDS: Final = SendFields.__optional_keys__
_OUTGOING: Final = _FIELDS | {"to", "type", "payload"}


def check_names(fields: Mapping[str, Any]) -> None:
    """Keywords that are no fields are the mistake that Python itself would name."""
    for name in fields.keys() - _FIELDS:
        raise TypeError(f"{name!r} is not a keyword of a send; it takes {', '.join(sorted(_FIELDS))}")


@dataclass(frozen=True, slots=True)
class Recipient:
    """How far the message had got with one recipient. `unread` messages wait for it; `last_seen` is its last poll."""

    agent: str
    status: Literal["queued", "leased", "acked", "dead"]
    reason: str | None = None
    unread: int = 0
    last_seen: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """A send that is committed.

    `accepted` and `duplicate` (a send with this key had been accepted before): by the adapter, with `channel`,
    `sequence`, `timestamp` and `recipients`. `queued`: by the sidecar's outbox, with `outbox_position`. `scheduled`: by
    the adapter, to be sent at `deliver_at`.
    """

    status: Literal["accepted", "duplicate", "queued", "scheduled"]
    key: str
    channel: str | None = None
    sequence: int | None = None
    timestamp: str | None = None
    recipients: tuple[Recipient, ...] = ()
    outbox_position: int | None = None
    deliver_at: str | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message ready to leave: its key and its bytes, made once, so that every attempt sends the same."""

    key: str
    body: bytes


def outgoing(message: Mapping[str, Any], at: str = "") -> Outgoing:
    """The bytes of a message given by its envelope's field names; raises `InvalidMessage` under the pointer `at`.

    Fields that are None are left out, the payload excepted: null is a payload.
    """
    unknown = sorted(set(message) - _OUTGOING)
    if unknown:
        raise InvalidMessage(f"{unknown[0]!r} is not a field of a message that is sent", f"{at}/{unknown[0]}")
    envelope = {
        name: _moment(value, f"{at}/{name}") if isinstance(value, datetime) else value
        for name, value in message.items()
        if value is not None or name == "payload"
    }
    key = envelope.setdefault("idempotency_key", new_key())
    return Outgoing(str(key), encode(envelope, at))


def receipt(answer: Mapping[str, Any]) -> Receipt:
    """The receipt that an answer of 200, 201 or 202 stands for. Members it does not know are ignored."""
    return Receipt(
        status=answer["status"],
        key=answer["idempotency_key"],
        channel=answer.get("channel"),
        sequence=answer.get("channel_sequence_id"),
        timestamp=answer.get("timestamp_iso8601"),
        recipients=tuple(_recipient(entry) for entry in answer.get("recipients", ())),
        outbox_position=answer.get("outbox_position"),
        deliver_at=answer.get("deliver_at"),
    )


def _recipient(entry: Mapping[str, Any]) -> Recipient:
    return Recipient(
        entry["agent"], entry["status"], entry.get("reason"), entry.get("unread", 0), entry.get("last_seen")
    )


def _moment(value: datetime, field: str) -> str:
    if value.utcoffset() is None:
        raise InvalidMessage("a time needs an offset: use datetime.now(UTC), not a naive datetime", field)
    return value.isoformat()
