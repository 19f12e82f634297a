"""Scheduled sends as rows, and the reading unit over them: pages in the order of their times."""

import sqlite3
from dataclasses import dataclass
from typing import Any

from adapter.core.appointment import CANCELLED_KEPT_MAX, Appointment, AppointmentState
from adapter.core.commands import ScheduledSend, Send
from adapter.store.envelopes import read_stored, to_column
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.rows import Row
from shared.strict_json import encode

Position = tuple[int, int]
"""Time and number of the last one of a page."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One as it is shown; `type` and `task_id` are those of its message. Times are wall microseconds."""

    appointment: Appointment
    channel: str
    accepted_at_us: int
    reason: str | None
    detail: str | None
    type: str
    task_id: str | None


def scheduled_row(scheduled: ScheduledSend, names: Names) -> Row:
    """The row of a scheduled send."""
    appointment, send = scheduled.appointment, scheduled.send
    return (
        appointment.number,
        names.agent_ids[appointment.sender],
        appointment.idempotency_key,
        appointment.deliver_at_us,
        appointment.standing,
        names.channel_ids[send.channel],
        scheduled.accepted_at_us,
        scheduled.reason,
        scheduled.detail,
        send.content_sha256,
        send.order_key,
        send.critical,
        send.rate_class,
        send.keep_forever,
        send.expires_at_us,
        to_column(encode(send.envelope)),
    )


def read_scheduled(row: Row, names: Names) -> ScheduledSend:
    """What `scheduled_row` made."""
    appointment = read_appointment(row[:5], names)
    channel_id, accepted_at_us, reason, detail, digest, order_key, critical, rate_class, forever, expires = row[5:15]
    envelope: dict[str, Any] = read_stored(row[15])
    send = Send(
        envelope=envelope,
        sender=appointment.sender,
        idempotency_key=appointment.idempotency_key,
        content_sha256=digest,
        channel=names.channel_names[channel_id],
        order_key=order_key,
        critical=bool(critical),
        rate_class=rate_class,
        keep_forever=bool(forever),
        expires_at_us=expires,
        deliver_at_us=appointment.deliver_at_us,
    )
    return ScheduledSend(appointment, send, accepted_at_us, reason, detail)


def read_appointment(row: Row, names: Names) -> Appointment:
    """The appointment that starts a row."""
    number, sender_id, key, deliver_at_us, standing = row
    return Appointment(number, names.agent_names[sender_id], key, deliver_at_us, AppointmentState(standing))


def read_appointments(connection: sqlite3.Connection, names: Names) -> list[Appointment]:
    """Those that wait, and those that failed, in the order of their acceptance."""
    found = [read_appointment(row, names) for row in connection.execute(SQL["appointments"])]
    return sorted(found, key=lambda appointment: appointment.number)


def forget_cancelled(connection: sqlite3.Connection) -> None:
    """Keep only the newest of those that were cancelled."""
    for (newest_id,) in connection.execute(SQL["cancelled_long_ago"], (CANCELLED_KEPT_MAX,)).fetchall():
        connection.execute(SQL["forget_cancelled"], (newest_id,))


def list_scheduled(
    connection: sqlite3.Connection, names: Names, sender: str | None, after: Position | None, limit: int
) -> list[Listed]:
    """Up to `limit` of one sender or of all, behind a position."""
    deliver_at_us, number = (-1, 0) if after is None else after
    sender_id = None if sender is None else names.agent_ids.get(sender, 0)
    rows = connection.execute(SQL["list_scheduled"], (deliver_at_us, number, sender_id, limit))
    return [_listed(row, names) for row in rows]


def _listed(row: Row, names: Names) -> Listed:
    channel_id, accepted_at_us, reason, detail, column = row[5:]
    appointment, envelope = read_appointment(row[:5], names), read_stored(column)
    shown = envelope["type"], envelope.get("task_id")
    return Listed(appointment, names.channel_names[channel_id], accepted_at_us, reason, detail, *shown)
