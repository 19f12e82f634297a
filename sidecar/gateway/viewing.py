"""Views of the adapter's store: a channel by range, a task, a lineage."""

from urllib.parse import quote

from shared.limits import IDENTIFIER_CHARS_MAX, INTEGER_MAX
from shared.link import CHANNEL_PATH, LINEAGE_PATH, TASK_PATH
from shared.problems import Problem
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
        path = CHANNEL_PATH.format(channel=_part(call, "channel"))
        return await self._pass(f"{path}?from={first}&to={last}")

    async def task(self, call: Call) -> Answer:
        """One task."""
        return await self._pass(TASK_PATH.format(task_id=_part(call, "task_id")))

    async def lineage(self, call: Call) -> Answer:
        """The tree of a task."""
        return await self._pass(LINEAGE_PATH.format(task_id=_part(call, "task_id")))

    async def _pass(self, target: str) -> Answer:
        return json_answer(200, (await self._link.call("GET", target)).expect())


def _part(call: Call, name: str) -> str:
    """A parameter of the path, encoded again. Encoding may treble it, and a request line that is too long for the
    adapter would count as a failure of the link, so the length is held against the limit of identifiers here."""
    text = call.path[name]
    if len(text) > IDENTIFIER_CHARS_MAX:
        raise Problem("invalid-field", f"It has {IDENTIFIER_CHARS_MAX} characters at most.", field=f"path {name}")
    return quote(text, safe="")
