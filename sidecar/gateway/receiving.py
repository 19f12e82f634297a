"""Polls, acks, nacks and extensions."""

from functools import partial

from shared.api import AckRequest, ExtendRequest, NackRequest, ReceiveRequest
from shared.limits import POLL_MESSAGES_MAX, POLL_WAIT_SECONDS_MAX
from shared.model import check
from shared.web.routes import Answer, Call, json_answer
from sidecar.acknowledger import Acknowledger
from sidecar.receiver import PollResult, Receiver

MESSAGES_DEFAULT = 10


class Receiving:
    """`GET /v1/messages` and what follows a hand-over. A deployment may wait less long than it is asked to."""

    def __init__(self, receiver: Receiver, acknowledger: Acknowledger, wait_seconds_max: float) -> None:
        self._receiver = receiver
        self._acknowledger = acknowledger
        self._wait_seconds_max = wait_seconds_max

    async def poll(self, call: Call) -> Answer:
        """Messages under a lease; if they cannot be written to the agent they go back at once."""
        wait = min(call.query_float("wait", 0.0, 0.0, POLL_WAIT_SECONDS_MAX), self._wait_seconds_max)
        count = call.query_int("max", MESSAGES_DEFAULT, 1, POLL_MESSAGES_MAX)
        return self._answer(await self._receiver.poll(wait, count))

    async def receive(self, call: Call) -> Answer:
        """A poll that may carry acks, in one request."""
        request = check(ReceiveRequest, call.json())
        wait = min(request.wait, self._wait_seconds_max)
        if request.acks is None:
            return self._answer(await self._receiver.poll(wait, request.max))
        return self._answer(await self._receiver.receive(request.acks, wait, request.max))

    def _answer(self, result: PollResult) -> Answer:
        answer = json_answer(200, result.wire())
        if result.handed or result.gaps:
            answer.undelivered = partial(self._receiver.undelivered, result)
        return answer

    async def ack(self, call: Call) -> Answer:
        """The messages are processed, and stay so."""
        return json_answer(200, await self._acknowledger.acknowledge(check(AckRequest, call.json())))

    async def nack(self, call: Call) -> Answer:
        """The message is not processed."""
        body = call.json()
        check(NackRequest, body)
        return json_answer(200, await self._acknowledger.nack(body))

    async def extend(self, call: Call) -> Answer:
        """More time."""
        body = call.json()
        check(ExtendRequest, body)
        return json_answer(200, await self._acknowledger.extend(body))
