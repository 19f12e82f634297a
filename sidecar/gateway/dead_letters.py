"""Dead letters, for the orchestrator: asked of the adapter, which checks who may."""

from typing import Any, Final
from urllib.parse import quote, urlencode

from shared import dead_letters as wire
from shared.limits import IDENTIFIER_CHARS_MAX
from shared.link import ROOT
from shared.model import Model, check
from shared.problems import Problem
from shared.strict_json import encode
from shared.web.routes import Answer, Call, json_answer
from sidecar.link import Link

_FILTERS: Final = ("recipient", "reason", "before", "limit", "after")


class DeadLetters:
    """What can be asked about dead letters."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def page(self, call: Call) -> Answer:
        """Open ones that match."""
        given = {name: call.request.query[name] for name in _FILTERS if name in call.request.query}
        for name, value in given.items():
            _bounded(value, f"query {name}")
        return await self._get(wire.PATH + ("?" + urlencode(given) if given else ""))

    async def one(self, call: Call) -> Answer:
        """One in full."""
        parts = {name: quote(_bounded(text, f"path {name}"), safe="") for name, text in call.path.items()}
        return await self._get(wire.ONE_PATH.format(**parts))

    async def groups(self, _: Call) -> Answer:
        """Counts by recipient and reason."""
        return await self._get(wire.GROUPS_PATH)

    async def replay(self, call: Call) -> Answer:
        """Queue them again. Asked twice, as after a lost answer, it does no harm."""
        return await self._post(wire.REPLAY_PATH, wire.ReplayRequest, call.json())

    async def resolve(self, call: Call) -> Answer:
        """Close them."""
        return await self._post(wire.RESOLVE_PATH, wire.ResolveRequest, call.json())

    async def _get(self, target: str) -> Answer:
        return json_answer(200, (await self._link.call("GET", ROOT + target)).expect())

    async def _post(self, path: str, model: type[Model], body: dict[str, Any]) -> Answer:
        check(model, body)
        return json_answer(200, (await self._link.call("POST", ROOT + path, encode(body))).expect())


def _bounded(text: str, field: str) -> str:
    """A request line too long for the adapter would count as a failure of the link, so lengths are checked here."""
    if len(text) > IDENTIFIER_CHARS_MAX:
        raise Problem("invalid-field", f"It has {IDENTIFIER_CHARS_MAX} characters at most.", field=field)
    return text
