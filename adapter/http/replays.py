"""Replay jobs over HTTP, for the orchestrator."""

from typing import Any

from adapter.broker import Broker
from adapter.core.commands import CancelReplay, StartReplay
from adapter.core.dead_letters import Filter
from adapter.core.replay_job import ReplayJob
from adapter.http.orchestrator import permit
from adapter.http.roster import Roster
from adapter.store.engine import Store
from adapter.store.replays import read_replay, read_replays
from shared.identifiers import uuid7
from shared.model import check
from shared.problems import Problem
from shared.replays import ReplayJobRequest
from shared.times import from_iso, iso
from shared.web.routes import Answer, Call, json_answer


class Replays:
    """The calls about replay jobs."""

    def __init__(self, broker: Broker, store: Store, roster: Roster) -> None:
        self._broker = broker
        self._store = store
        self._roster = roster

    async def start(self, call: Call) -> Answer:
        """A new job: 201, or 200 where it was asked for before."""
        permit(call, self._roster.topology)
        request = check(ReplayJobRequest, call.json())
        cut_off_us = None if request.cut_off is None else from_iso(request.cut_off)
        wanted = Filter(request.recipient, request.reason, cut_off_us)
        job_id = str(uuid7()) if request.id is None else request.id.lower()
        job, fresh = await self._broker.ask(StartReplay(job_id, wanted, request.rate, request.limit))
        return json_answer(201 if fresh else 200, job_view(job))

    async def all(self, call: Call) -> Answer:
        """Those that are known."""
        permit(call, self._roster.topology)
        return json_answer(200, {"replays": [job_view(job) for job in await self._store.read(read_replays)]})

    async def one(self, call: Call) -> Answer:
        """How far one is."""
        permit(call, self._roster.topology)
        job_id = call.path["id"].lower()
        job = await self._store.read(lambda db, names: read_replay(db, names, job_id))
        if job is None:
            raise Problem("not-found", f"There is no replay {job_id!r}.")
        return json_answer(200, job_view(job))

    async def cancel(self, call: Call) -> Answer:
        """It ends where it is."""
        permit(call, self._roster.topology)
        return json_answer(200, job_view(await self._broker.ask(CancelReplay(call.path["id"].lower()))))


def job_view(job: ReplayJob) -> dict[str, Any]:
    """A `ReplayJobView` as plain values."""
    return {
        "id": job.id,
        "state": str(job.state),
        "recipient": job.wanted.recipient,
        "reason": job.wanted.reason,
        "cut_off": iso(job.wanted.before_us or 0),
        "rate": job.rate,
        "limit": job.limit,
        "created_at": iso(job.created_at_us),
        "ended_at": None if job.ended_at_us is None else iso(job.ended_at_us),
        "matched": job.matched,
        "replayed": job.replayed,
        "refused": job.refused,
        "remaining": job.left,
        "waiting": list(job.waiting),
    }
