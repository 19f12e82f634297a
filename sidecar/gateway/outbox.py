"""The agent's outbox: what waits and what was refused, shown, sent again, or thrown away."""

import logging
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from shared import outbox as wire
from shared.clock import Clock
from shared.digests import sha256
from shared.envelope import KEY_PATTERN
from shared.journal import Entry, Journal
from shared.journal_events import OUTBOX_DROPPED
from shared.model import check
from shared.problems import Problem
from shared.times import MICROSECONDS, iso
from shared.web.routes import Answer, Call, json_answer
from sidecar.counters import Counters
from sidecar.store import outbox_views as views
from sidecar.store.outbox import Outbox
from sidecar.store.outbox_units import Removed
from sidecar.store.store import Store

_log = logging.getLogger(__name__)

_NEVER: Final = 0
"""An id that comes before all others."""


class OutboxAccess:
    """What can be asked about one agent's outbox, and done with what is in it."""

    def __init__(
        self,
        agent: str,
        outbox: Outbox,
        store: Store,
        is_critical: Callable[[str], bool],
        journal: Journal,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._agent = agent
        self._outbox = outbox
        self._store = store
        self._is_critical = is_critical
        self._journal = journal
        self._clock = clock
        self._counters = counters

    async def waiting(self, call: Call) -> Answer:
        """In the order in which they leave."""
        limit, after = _page(call)
        first, found = await views.waiting_page(self._store, after, limit + 1)
        page = {
            "waiting": [self._waiting(row, first + index) for index, row in enumerate(found[:limit])],
            "depth": self._outbox.depth,
            "outbox_max": self._outbox.bounds.entries_max,
            "critical_reserve": self._outbox.bounds.critical_reserve,
            "stopped": self._outbox.is_stopped,
            "next": f"{found[limit - 1].id:x}" if len(found) > limit else None,
        }
        return json_answer(200, page)

    async def refused(self, call: Call) -> Answer:
        """In the order in which they were refused."""
        limit, after = _page(call)
        found = await views.refused_page(self._store, after, limit + 1)
        page = {
            "dead": [self._refused(row) for row in found[:limit]],
            "count": self._outbox.dead,
            "dead_max": self._outbox.bounds.dead_max,
            "next": f"{found[limit - 1].id:x}" if len(found) > limit else None,
        }
        return json_answer(200, page)

    async def one(self, call: Call) -> Answer:
        """One with its message."""
        key = _key(call)
        found = await views.one(self._store, key)
        if found is None:
            raise Problem("not-found", f"No send waits under the key {key}, and no refused one is kept.")
        envelope = orjson.loads(found.envelope)
        row = (found.id, key, envelope["to"], envelope["type"], len(found.envelope), found.at_us)
        view: dict[str, Any] = dict.fromkeys(wire.OutboxRecord.model_fields)
        if found.position is not None:
            view |= self._waiting(views.Waiting(*row), found.position)
        else:
            view |= self._refused(views.Refused(*row, found.problem or b"{}"))
        return json_answer(200, view | {"envelope": envelope})

    async def resend(self, call: Call) -> Answer:
        """Behind all that wait. Asked twice, as after a lost answer, it is one send."""
        key, request = _key(call), check(wire.ResendRequest, call.json())
        outcome = await self._outbox.resend(key, request.new_key)
        if outcome.problem is not None:
            raise Problem.from_document(outcome.problem)
        self._counters.outbox_resent += 1
        _log.warning("outbox-resent: %s goes again, under the key %s", key, request.new_key or key)
        return json_answer(outcome.code, outcome.answer)

    async def drop(self, call: Call) -> Answer:
        """Away with it, and a trace of that in the log; of one that waited in the journal as well."""
        key = _key(call)
        removed = await self._outbox.drop(key)
        self._counters.outbox_dropped += 1
        facts = _facts(key, removed)
        _log.warning("outbox-dropped: %s", orjson.dumps(facts).decode())
        if removed.was == "waiting":
            words = f"A send of {self._agent} to {facts['to']} was dropped before the adapter had it."
            await self._journal.record(Entry(OUTBOX_DROPPED, words, "outbox-dropped", self._agent, facts))
        return json_answer(200, {"idempotency_key": key, "status": "dropped", "was": removed.was})

    def _waiting(self, row: views.Waiting, position: int) -> dict[str, Any]:
        age_us = max(0, self._clock.wall_us() - row.queued_at_us)
        return self._send(row) | {
            "status": "in-flight" if self._outbox.is_in_flight(row.id) else "waiting",
            "position": position,
            "queued_at": iso(row.queued_at_us),
            "age_seconds": age_us / MICROSECONDS,
        }

    def _refused(self, row: views.Refused) -> dict[str, Any]:
        problem = orjson.loads(row.problem) or None
        return self._send(row) | {"status": "dead", "refused_at": iso(row.refused_at_us), "problem": problem}

    def _send(self, row: views.Waiting | views.Refused) -> dict[str, Any]:
        priority = "critical" if self._is_critical(row.type) else "normal"
        return {
            "idempotency_key": row.key, "to": row.to, "type": row.type, "priority": priority, "bytes": row.size
        }  # fmt: skip


def _facts(key: str, removed: Removed) -> dict[str, Any]:
    """What is told of a send that is gone: enough to know which it was, and nothing of its content."""
    envelope = orjson.loads(removed.envelope)
    return {
        "idempotency_key": key,
        "was": removed.was,
        "to": envelope["to"],
        "type": envelope["type"],
        "task_id": envelope.get("task_id"),
        "bytes": len(removed.envelope),
        "sha256": sha256(removed.envelope).hexdigest(),
    }


def _page(call: Call) -> tuple[int, int]:
    """The limit, and the id behind which to go on."""
    after = call.query("after", f"{_NEVER:x}")
    if not re.fullmatch(wire.CURSOR_PATTERN, after):
        raise Problem("invalid-field", "It is the `next` of an earlier page.", field="query after")
    return call.query_int("limit", wire.ITEMS_DEFAULT, 1, wire.ITEMS_MAX), int(after, 16)


def _key(call: Call) -> str:
    key = call.path["idempotency_key"]
    if not re.fullmatch(KEY_PATTERN, key):
        raise Problem("invalid-field", "An idempotency key is a UUID.", field="path idempotency_key")
    return key
