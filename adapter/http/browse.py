"""Reading back: ranges of a channel, for its members and no others; a task and the tree it belongs to, for any agent,
since their steps hold no content."""

from typing import Any

import orjson

from adapter.core.contract import Registry
from adapter.core.tasks import view
from adapter.http.roster import Roster
from adapter.store.engine import Store
from adapter.store.open_messages import read_forgotten_us, read_open
from adapter.store.reads import read_range, read_steps, read_tree
from shared.limits import INTEGER_MAX
from shared.lost_ranges import gap_document
from shared.problems import Problem
from shared.times import iso
from shared.web.routes import Answer, Call, json_answer


class Browse:
    """The reading calls."""

    def __init__(self, store: Store, roster: Roster, registry: Registry) -> None:
        self._store = store
        self._roster = roster
        self._intents: dict[str, str] = {d.type: d.intent for d in registry.definitions()}

    async def channel(self, call: Call) -> Answer:
        """Messages `from` to `to` of a channel the caller belongs to."""
        channel = call.path["channel"]
        self._roster.topology.check_reader(channel, call.agent)
        first = call.query_int("from", None, 1, INTEGER_MAX)
        final = call.query_int("to", first, first, INTEGER_MAX)
        page = await self._store.read(lambda db, names: read_range(db, names, channel, first, final))
        messages = [orjson.Fragment(envelope) for envelope in page.envelopes]
        gaps = [gap_document(channel, hole) for hole in page.holes]
        body = {"channel": channel, "messages": messages, "gaps": gaps, "last": page.last, "next": page.next}
        return Answer(200, orjson.dumps(body))

    async def open_messages(self, call: Call) -> Answer:
        """What may still be handed over to the caller."""
        after = call.query_int("after", 0, 0, INTEGER_MAX)
        page, following = await self._store.read(lambda db, names: read_open(db, names, call.agent, after))
        messages = [{"sender": sender, "idempotency_key": key} for sender, key in page]
        forgotten_us = await self._store.read(read_forgotten_us)
        return json_answer(200, {"messages": messages, "next": following, "forgotten_before": iso(forgotten_us)})

    async def task(self, call: Call) -> Answer:
        """One task, as its messages tell it."""
        task_id = call.path["task_id"]
        steps = await self._store.read(lambda db, names: read_steps(db, names, task_id, self._intents))
        if not steps:
            raise Problem("not-found", f"No message is about the task {task_id!r}.", field="path task_id")
        return json_answer(200, view(task_id, steps))

    async def lineage(self, call: Call) -> Answer:
        """The whole tree of a task."""
        task_id = call.path["task_id"]
        tree = await self._store.read(lambda db, names: read_tree(db, names, task_id, self._intents))
        tasks: list[dict[str, Any]] = [view(name, steps) for name, steps in tree.items()]
        if not any(task["steps"] for task in tasks):
            raise Problem("not-found", f"No message is about the task {task_id!r}.", field="path task_id")
        return json_answer(200, {"root": next(iter(tree)), "tasks": tasks})
