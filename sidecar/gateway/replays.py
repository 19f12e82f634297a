"""Replay jobs, for the orchestrator: asked of the adapter, which checks who may."""

from urllib.parse import quote

from shared import replays as wire
from shared.limits import IDENTIFIER_CHARS_MAX
from shared.link import ROOT
from shared.model import check
from shared.problems import Problem
from shared.strict_json import encode
from shared.web.routes import Answer, Call, json_answer
from sidecar.link import Link


class Replays:
    """What can be asked about replay jobs."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def start(self, call: Call) -> Answer:
        """A new job, or the one of this id."""
        body = call.json()
        check(wire.ReplayJobRequest, body)
        return await self._ask("POST", wire.REPLAYS_PATH, encode(body))

    async def all(self, _: Call) -> Answer:
        """Those that are known."""
        return await self._ask("GET", wire.REPLAYS_PATH)

    async def one(self, call: Call) -> Answer:
        """How far one is."""
        return await self._ask("GET", _path(call))

    async def cancel(self, call: Call) -> Answer:
        """It ends where it is. Asked twice it does no harm."""
        return await self._ask("DELETE", _path(call))

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        answer = await self._link.call(method, ROOT + path, body)
        return json_answer(answer.status or 200, answer.expect())


def _path(call: Call) -> str:
    job_id = call.path["id"]
    if len(job_id) > IDENTIFIER_CHARS_MAX:
        raise Problem("not-found", "There is no replay of such a long name.")
    return wire.ONE_REPLAY_PATH.format(id=quote(job_id, safe=""))
