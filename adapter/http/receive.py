"""What a receiving sidecar asks for: hand-overs, and how each ended."""

from http import HTTPStatus
from typing import Any

import orjson

from adapter.broker import Broker
from adapter.core.commands import Ack, Extend, Extended, HandedOver, Nack, Settled
from adapter.core.losses import Losses
from adapter.http.roster import Roster
from adapter.store.engine import Store
from shared.api import AckRequest, ExtendRequest, NackRequest
from shared.link import PollRequest
from shared.model import check
from shared.problems import Problem
from shared.results import encoded_results
from shared.times import MICROSECONDS, iso
from shared.web.routes import Answer, Call, json_answer


class Receive:
    """Poll, ack, nack and extend."""

    def __init__(self, broker: Broker, store: Store, roster: Roster, poll_wait_seconds_max: float) -> None:
        self._broker = broker
        self._store = store
        self._roster = roster
        self._poll_wait_seconds_max = poll_wait_seconds_max

    async def poll(self, call: Call) -> Answer:
        """Messages, or an empty list when the wait is over. An answer nobody takes gives the leases back."""
        request = check(PollRequest, call.json())
        losses = self._store.losses
        is_news = losses.newest > request.restores
        wait = 0.0 if is_news else min(request.wait, self._poll_wait_seconds_max)
        acks = None if request.acks is None else _ack(call.agent, request.acks)
        lost = tuple(request.lost or ())
        polled = await self._broker.poll(call.agent, request.max, wait, request.poll or "", lost, acks)
        body: dict[str, Any] = {"messages": [_delivery(message) for message in polled.handed]}
        if polled.acked is not None:
            body["acks"] = _outcome(polled.acked)
        if is_news:
            body |= {"lost": self._lost(losses, call.agent, request.restores), "restores": losses.newest}
        return Answer(200, orjson.dumps(body), undelivered=lambda: self._broker.give_back(call.agent, polled.handed))

    def _lost(self, losses: Losses, agent: str, restores: int) -> list[dict[str, Any]]:
        """What the agent's own channels have lost."""
        members = self._roster.topology.members
        return [
            {"channel": channel, "from": lost.first, "to": lost.last}
            for channel, ranges in losses.since(restores).items()
            if agent in members.get(channel, ())
            for lost in ranges
        ]

    async def ack(self, call: Call) -> Answer:
        """The acked ids; 409 `stale-lease` when one had ended, the others being acked."""
        acked = await self._broker.ask(_ack(call.agent, check(AckRequest, call.json())))
        return json_answer(200, {"acked": acked})

    async def nack(self, call: Call) -> Answer:
        """Where the delivery went."""
        request = check(NackRequest, call.json())
        settled: Settled = await self._broker.ask(Nack(call.agent, request.delivery_id, request.mode, request.reason))
        return json_answer(200, {"delivery_id": request.delivery_id, "status": settled.status})

    async def extend(self, call: Call) -> Answer:
        """The new end of each lease."""
        request = check(ExtendRequest, call.json())
        extended: Extended = await self._broker.ask(
            Extend(call.agent, tuple(request.delivery_ids), int(request.seconds * MICROSECONDS))
        )
        until = iso(extended.lease_until_us)
        leases = [{"delivery_id": token, "lease_expires_at": until} for token in request.delivery_ids]
        return json_answer(200, {"leases": leases})


def _ack(agent: str, request: AckRequest) -> Ack:
    return Ack(agent, tuple(request.delivery_ids), encoded_results(request))


def _outcome(acked: list[str] | Problem) -> dict[str, Any]:
    """As an `AckOutcome`."""
    if isinstance(acked, Problem):
        return {"code": acked.status, "problem": acked.document()}
    return {"code": int(HTTPStatus.OK), "answer": {"acked": acked}}


def _delivery(message: HandedOver) -> dict[str, Any]:
    return {
        "delivery_id": message.delivery_id,
        "attempt": message.attempt,
        "redelivered": message.attempt > 1,
        "lease_expires_at": iso(message.lease_until_us),
        "envelope": orjson.Fragment(message.envelope),
    }
