"""Views of the adapter's store: a channel by range, a task, a lineage."""

from urllib.parse import quote

from shared.limits import INTEGER_MAX
from shared.link import CHANNEL_PATH, LINEAGE_PATH, TASK_PATH
from shared.web.routes import Answer, Call, json_answer
from sidecar.link import Link


class Viewing:
    """Reads that only the adapter can answer."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def channel(self, call: Call) -> Answer:
        """Messages of one channel by sequence."""
        first = call.query_int("from", None, 1, INTEGER_MAX)
        last = call.query_int("to", None, 1, INTEGER_MAX)
        path = CHANNEL_PATH.format(channel=_part(call.path["channel"]))
        return await self._pass(f"{path}?from={first}&to={last}")

    async def task(self, call: Call) -> Answer:
        """One task."""
        return await self._pass(TASK_PATH.format(task_id=_part(call.path["task_id"])))

    async def lineage(self, call: Call) -> Answer:
        """The tree of a task."""
        return await self._pass(LINEAGE_PATH.format(task_id=_part(call.path["task_id"])))

    async def _pass(self, target: str) -> Answer:
        return json_answer(200, (await self._link.call("GET", target)).expect())


def _part(text: str) -> str:
    return quote(text, safe="")
