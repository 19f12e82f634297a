"""Scheduled messages: asked of the adapter, which has them and checks who may."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from shared import scheduled as wire
from shared.limits import IDENTIFIER_CHARS_MAX
from shared.link import ROOT
from shared.problems import Problem
from shared.web.routes import Answer, Call, json_answer
from sidecar.link import Link

_FILTERS: Final = ("sender", "limit", "after")


class Scheduled:
    """What can be asked about scheduled messages."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def page(self, call: Call) -> Answer:
        """What waits or has failed."""
        return await self._ask("GET", wire.PATH, call, _FILTERS)

    async def cancel(self, call: Call) -> Answer:
        """It will not be sent. Asked twice, as after a lost answer, it does no harm."""
        key = _bounded(call.path["idempotency_key"], "path idempotency_key")
        return await self._ask("DELETE", wire.ONE_PATH.format(idempotency_key=quote(key, safe="")), call, ("sender",))

    async def _ask(self, method: str, path: str, call: Call, names: Sequence[str]) -> Answer:
        query = call.request.query
        given = {name: _bounded(query[name], f"query {name}") for name in names if name in query}
        target = ROOT + path + ("?" + urlencode(given) if given else "")
        return json_answer(200, (await self._link.call(method, target)).expect())


def _bounded(text: str, field: str) -> str:
    """A request line too long for the adapter would count as a failure of the link, so lengths are checked here."""
    if len(text) > IDENTIFIER_CHARS_MAX:
        raise Problem("invalid-field", f"It has {IDENTIFIER_CHARS_MAX} characters at most.", field=field)
    return text
