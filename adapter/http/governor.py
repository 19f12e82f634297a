"""The Human Governor's inbox over HTTP: opened with the Governor's key, and with no other."""

from typing import Final

import orjson

from adapter.broker import Broker
from adapter.core.commands import MarkRead
from adapter.store.engine import Store
from adapter.store.inbox import find_letters, read_inbox
from shared import link
from shared.limits import INTEGER_MAX
from shared.model import check
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.web.routes import Answer, Call, json_answer

_ALL: Final = {"false": False, "true": True}


class GovernorInbox:
    """The calls about the inbox. Looking into it leases nothing."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self._broker = broker
        self._store = store

    async def inbox(self, call: Call) -> Answer:
        """What no human has read, or all of it, the oldest first."""
        _permit(call)
        everything = _ALL.get(call.query("all", "false"))
        if everything is None:
            raise Problem("invalid-field", "Say true or false.", field="query all")
        after = call.query_int("after", 0, 0, INTEGER_MAX)
        limit = call.query_int("limit", link.INBOX_MESSAGES_MAX, 1, link.INBOX_MESSAGES_MAX)
        found = await self._store.read(
            lambda db, names: read_inbox(db, names, after, limit + 1, unread=not everything),
        )
        page = found[:limit]
        messages = [{"status": each.state.word, "envelope": orjson.Fragment(each.envelope)} for each in page]
        following = page[-1].position if len(found) > limit else None
        return Answer(200, orjson.dumps({"messages": messages, "next": following}))

    async def read(self, call: Call) -> Answer:
        """These are read. Reading one twice is harmless."""
        _permit(call)
        wanted = check(link.ReadRequest, call.json()).sequences
        numbers = await self._store.read(lambda db, names: find_letters(db, names, wanted))
        read = set(await self._broker.ask(MarkRead(tuple(numbers.values()))))
        done = [sequence for sequence in wanted if numbers.get(sequence) in read]
        return json_answer(200, {"read": done, "missing": [sequence for sequence in wanted if sequence not in done]})


def _permit(call: Call) -> None:
    if call.agent != GOVERNOR:
        detail = "The Governor's inbox is for humans: multiclaw governor inbox."
        raise Problem("not-permitted", detail)
