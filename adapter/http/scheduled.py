"""Scheduled messages over HTTP: each sender sees and cancels its own, the orchestrator everybody's."""

import re
from typing import Any
from uuid import UUID

from adapter.broker import Broker
from adapter.core.commands import CancelScheduled, Settled
from adapter.http.orchestrator import ROLE, permit
from adapter.http.roster import Roster
from adapter.store.engine import Store
from adapter.store.schedule import Listed, Position, list_scheduled
from shared.envelope import KEY_PATTERN
from shared.problems import Problem
from shared.scheduled import CURSOR_PATTERN, ITEMS_DEFAULT, ITEMS_MAX
from shared.times import iso
from shared.web.routes import Answer, Call, json_answer


class Scheduled:
    """The calls about scheduled messages."""

    def __init__(self, broker: Broker, store: Store, roster: Roster) -> None:
        self._broker = broker
        self._store = store
        self._roster = roster

    async def page(self, call: Call) -> Answer:
        """What waits or has failed, in the order of time; without a sender named, of everybody for the orchestrator."""
        named = call.request.query.get("sender")
        everybody = named is None and self._roster.topology.roles[call.agent] == ROLE
        sender = None if everybody else self._sender(call)
        after = _position(call.request.query.get("after"))
        limit = call.query_int("limit", ITEMS_DEFAULT, 1, ITEMS_MAX)
        found = await self._store.read(lambda db, names: list_scheduled(db, names, sender, after, limit + 1))
        following = _cursor(found[limit - 1]) if len(found) > limit else None
        return json_answer(200, {"scheduled": [_view(one) for one in found[:limit]], "next": following})

    async def cancel(self, call: Call) -> Answer:
        """It will not be sent."""
        sender, key = self._sender(call), call.path["idempotency_key"]
        if not re.fullmatch(KEY_PATTERN, key):
            raise Problem("not-found", "An idempotency key is a UUID.", field="path idempotency_key")
        settled: Settled = await self._broker.ask(CancelScheduled(sender, UUID(key).bytes))
        return json_answer(200, {"idempotency_key": key, "sender": sender, "status": settled.status})

    def _sender(self, call: Call) -> str:
        """Whose messages the call is about."""
        sender = call.request.query.get("sender", call.agent)
        if sender != call.agent:
            permit(
                call, self._roster.topology, f"What {sender!r} has scheduled is its own matter or the orchestrator's"
            )
        return sender


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    if not re.fullmatch(CURSOR_PATTERN, text):
        raise Problem("invalid-field", "`after` is the `next` of an earlier page.", field="query after")
    deliver_at, number = text.split(".")
    return int(deliver_at, 16), int(number, 16)


def _cursor(last: Listed) -> str:
    return f"{last.appointment.deliver_at_us:x}.{last.appointment.number:x}"


def _view(listed: Listed) -> dict[str, Any]:
    appointment = listed.appointment
    return {
        "idempotency_key": str(UUID(bytes=appointment.idempotency_key)),
        "sender": appointment.sender,
        "to": listed.channel,
        "type": listed.type,
        "task_id": listed.task_id,
        "deliver_at": iso(appointment.deliver_at_us),
        "scheduled_at": iso(listed.accepted_at_us),
        "status": appointment.standing,
        "reason": listed.reason,
        "detail": listed.detail,
    }
