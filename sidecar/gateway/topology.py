"""The topology, asked of the adapter, which checks who may change it."""

import re
from typing import Final
from urllib.parse import urlencode

from shared import topology as wire
from shared.limits import IDENTIFIER_CHARS_MAX
from shared.link import ROOT
from shared.model import check
from shared.problems import Problem
from shared.strict_json import encode
from shared.web.routes import Answer, Call, json_answer
from sidecar.link import Link

_PAGE: Final = ("before", "limit")


class Topology:
    """What can be asked about the topology."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def current(self, _: Call) -> Answer:
        """The version in force."""
        return await self._get(wire.PATH)

    async def versions(self, call: Call) -> Answer:
        """All of them."""
        given = {
            name: _number(call.request.query[name], f"query {name}") for name in _PAGE if name in call.request.query
        }
        return await self._get(wire.VERSIONS_PATH + ("?" + urlencode(given) if given else ""))

    async def one(self, call: Call) -> Answer:
        """One of them."""
        return await self._get(wire.ONE_PATH.format(version=_number(call.path["version"], "path version")))

    async def propose(self, call: Call) -> Answer:
        """A change, for a human to decide on. Asked twice, as after a lost answer, it is one proposal."""
        body = call.json()
        check(wire.Proposal, body)
        answer = await self._link.call("POST", ROOT + wire.PROPOSALS_PATH, encode(body))
        return json_answer(201, answer.expect())

    async def _get(self, target: str) -> Answer:
        return json_answer(200, (await self._link.call("GET", ROOT + target)).expect())


def _number(text: str, field: str) -> str:
    """Digits as they came: the adapter judges their range."""
    if not re.fullmatch(rf"[0-9]{{1,{IDENTIFIER_CHARS_MAX}}}", text):
        raise Problem("invalid-field", "It is a whole number.", field=field)
    return text
