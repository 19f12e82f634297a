"""Sends, one or up to a hundred."""

import asyncio
from typing import Any

from shared.api import BatchRequest
from shared.clock import Clock
from shared.identifiers import uuid7
from shared.model import check
from shared.problems import Problem
from shared.scheduled import check_times
from shared.web.routes import Answer, Call, json_answer
from sidecar.core.drafts import KEY_HEADER, Draft, make_draft
from sidecar.core.link_outcome import Outcome, refused
from sidecar.sender import Sender


class Sending:
    """`POST /v1/messages` and `…/batch`."""

    def __init__(self, agent: str, envelope_bytes_max: int, sender: Sender, clock: Clock) -> None:
        self._agent = agent
        self._envelope_bytes_max = envelope_bytes_max
        self._sender = sender
        self._clock = clock

    async def one(self, call: Call) -> Answer:
        """Accepted (201), a duplicate (200), queued or scheduled (202); once this returns, the message is safe."""
        draft = self._draft(call.json(), call.request.headers.get(KEY_HEADER))
        outcome = await self._sender.send(draft)
        if outcome.problem is not None:
            raise Problem.from_document(outcome.problem)
        return json_answer(outcome.code, outcome.answer)

    async def batch(self, call: Call) -> Answer:
        """An outcome for each, in order; a refused one does not hold up the rest."""
        bodies = call.json()
        check(BatchRequest, bodies)
        waiting = [self._start(body) for body in bodies["messages"]]
        outcomes = [each if isinstance(each, Outcome) else await each for each in waiting]
        return json_answer(200, {"outcomes": [outcome.wire() for outcome in outcomes]})

    def _start(self, body: dict[str, Any]) -> "Outcome | asyncio.Future[Outcome]":
        try:
            return self._sender.send(self._draft(body, None))
        except Problem as problem:
            return refused(problem)

    def _draft(self, body: dict[str, Any], header_key: str | None) -> Draft:
        draft = make_draft(
            body, header_key, agent=self._agent, bytes_max=self._envelope_bytes_max, new_key=lambda: str(uuid7())
        )
        if "deliver_at" in draft.envelope:  # refused now rather than, unseen, when it leaves the outbox
            check_times(draft.envelope, self._clock.wall_us())
        return draft
