"""The topology over HTTP: any agent reads it, the orchestrator proposes changes, and a human decides."""

from typing import Any

from adapter.broker import Broker
from adapter.core.commands import DecideTopology, NoteWritten, ProposeTopology
from adapter.core.membership import TopologyVersion
from adapter.http.orchestrator import permit
from adapter.http.roster import Roster
from adapter.store.engine import Store
from adapter.store.topologies import read_topologies, read_topology
from shared import topology as wire
from shared.limits import INTEGER_MAX
from shared.model import check
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.times import iso
from shared.web.routes import Answer, Call, json_answer


class TopologyVersions:
    """The calls about the topology."""

    def __init__(self, broker: Broker, store: Store, roster: Roster) -> None:
        self._broker = broker
        self._store = store
        self._roster = roster

    async def current(self, _: Call) -> Answer:
        """The version in force."""
        return json_answer(200, _view(await self._read(self._roster.topology.version)))

    async def versions(self, call: Call) -> Answer:
        """The newest first."""
        before = call.query_int("before", INTEGER_MAX, 1, INTEGER_MAX)
        limit = call.query_int("limit", wire.VERSIONS_MAX, 1, wire.VERSIONS_MAX)
        found = await self._store.read(lambda db, _: read_topologies(db, before, limit + 1))
        page = found[:limit]
        following = page[-1].version if len(found) > limit else None
        return json_answer(200, {"versions": [_view(version) for version in page], "next": following})

    async def one(self, call: Call) -> Answer:
        """One of them, whatever became of it."""
        return json_answer(200, _view(await self._read(_number(call))))

    async def propose(self, call: Call) -> Answer:
        """Checked against what is in force, and stored for a human. Asked twice, it is one proposal."""
        permit(call, self._roster.topology, "Changes of the topology are the orchestrator's to propose")
        proposal = check(wire.Proposal, call.json())
        version = await self._broker.ask(ProposeTopology(call.agent, proposal.change, proposal.reason))
        return json_answer(201, _view(version))

    async def approve(self, call: Call) -> Answer:
        """In force with the answer. An agent that joins needs its key file first."""
        version = _decidable(call)
        self._roster.read_keys((await self._read(version)).membership.agents)
        return await self._decide(call, version, approve=True)

    async def deny(self, call: Call) -> Answer:
        """It stays in the trail, and changes nothing."""
        return await self._decide(call, _decidable(call), approve=False)

    async def written(self, call: Call) -> Answer:
        """The file says what is in force."""
        return json_answer(200, _view(await self._broker.ask(NoteWritten(_decidable(call)))))

    async def _decide(self, call: Call, version: int, *, approve: bool) -> Answer:
        note = check(wire.Decision, call.json()).note
        return json_answer(200, _view(await self._broker.ask(DecideTopology(version, approve, call.agent, note))))

    async def _read(self, version: int) -> TopologyVersion:
        found = await self._store.read(lambda db, _: read_topology(db, version))
        if found is None:
            raise Problem("not-found", f"There is no version {version} of the topology.", field="path version")
        return found


def _decidable(call: Call) -> int:
    """The version that a human speaks of."""
    if call.agent != GOVERNOR:
        raise Problem("not-permitted", "Only a human decides on the topology: multiclaw topology approve.")
    return _number(call)


def _number(call: Call) -> int:
    text = call.path["version"]
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(INTEGER_MAX)) or int(text) > INTEGER_MAX:
        raise Problem("invalid-field", "A version is a whole number.", field="path version")
    return int(text)


def _view(version: TopologyVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "base": version.base,
        "state": version.standing.value,
        "source": version.source,
        "proposed_by": version.proposed_by,
        "reason": version.reason,
        "proposed_at": iso(version.proposed_at_us),
        "decided_by": version.decided_by,
        "decided_at": None if version.decided_at_us is None else iso(version.decided_at_us),
        "note": version.note,
        "in_file": version.in_file,
        "changes": list(version.changes),
        "topology": version.membership.model_dump(),
    }
