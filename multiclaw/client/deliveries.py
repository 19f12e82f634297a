"""Messages in this agent's hands: how they are asked for, and what is told of them."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from multiclaw.client.acks import Ack, AckQueue, ack_body
from multiclaw.client.encoding import encode
from multiclaw.client.errors import Refused, SidecarError, StaleLease
from multiclaw.client.gaps import Gap, GapLog
from multiclaw.client.leases import LeaseKeeper
from multiclaw.client.messages import Message, NackMode
from multiclaw.client.outgoing import Receipt
from multiclaw.client.retry import RetryPolicy
from multiclaw.client.transport import ONCE, Transport

_log = logging.getLogger(__name__)

MESSAGES_PATH: Final = "/v1/messages"
_RECEIVE_PATH: Final = "/v1/messages/receive"
_NACK_PATH: Final = "/v1/messages/nack"
_EXTEND_PATH: Final = "/v1/messages/extend"
_REASON_CHARS_MAX: Final = 1_000
"""What the API takes as a reason."""
_CARRYING_SECONDS_MAX: Final = 5.0
"""How long a poll that carries acks waits: they have no answer before it has, and where that is lost they must be told
again while their leases last, which were extended within the last third."""
_NO_SUCH_PATH: Final = frozenset({404, 405})


class Deliveries:
    """Polls, and tells of each hand-over. `send` is for the replies of its messages."""

    def __init__(self, transport: Transport, send: Callable[..., Awaitable[Receipt]], gaps: GapLog) -> None:
        self._transport = transport
        self.send = send
        self._gaps = gaps
        self._acks = AckQueue(transport)
        self.carries = True
        """Whether polls may carry acks; a sidecar of an earlier version does not know how."""
        self._streams: dict[int, tuple[deque[Message], LeaseKeeper]] = {}

    async def close(self) -> None:
        """Give back what no stream has yielded, and end what is under way."""
        for batch, keeper in list(self._streams.values()):
            await self._give_back(batch, keeper)
        await self._acks.close()

    async def poll(self, wait: float, count: int) -> list[Message]:
        """One poll, one attempt."""
        answer = await self._ask(wait, count)
        messages = [Message(delivery, self) for delivery in answer["messages"]]
        for gap in answer.get("gaps", ()):
            await self._gaps.note(Gap(gap["channel"], gap["from"], gap["to"], gap.get("reason")))
        return messages

    async def poll_until_some(self, wait: float, count: int) -> list[Message]:
        """Poll until there are messages, through restarts and absences of the sidecar; a refusal is raised."""
        clock = asyncio.get_running_loop().time
        pauses = RetryPolicy()
        failures = 0
        while True:
            begun = clock()
            seconds = min(wait, _CARRYING_SECONDS_MAX) if self._acks.has_boarded else wait
            try:
                messages = await self.poll(seconds, count)
            except SidecarError as error:
                if not _may_pass(error):
                    raise
                failures += 1
                _log.log(logging.WARNING if failures == 1 else logging.DEBUG, "poll failed: %s", error)
                await asyncio.sleep(max(pauses.delay(failures, self._transport.chance()), error.retry_after or 0.0))
                continue
            if messages:
                return messages
            # An empty answer before its time, as from a sidecar that shuts down, must not become a busy loop.
            failures = 0 if clock() - begun >= seconds > 0 else failures + 1
            if failures:
                await asyncio.sleep(pauses.delay(failures, self._transport.chance()))

    async def _ask(self, wait: float, count: int) -> Any:
        """The answer to one poll, with the acks that wait for one; where those are refused, to a poll without."""
        acks = self._acks.depart()
        if acks:
            try:
                return await self._ask_carrying(acks, wait, count)
            except Refused as refusal:
                self.carries = self.carries and refusal.status not in _NO_SUCH_PATH
        target = f"{MESSAGES_PATH}?{urlencode({'wait': f'{wait:f}', 'max': count})}"
        return await self._transport.once("GET", target, patience=wait)

    async def _ask_carrying(self, acks: Sequence[Ack], wait: float, count: int) -> Any:
        body = b'{"wait":' + encode(wait) + b',"max":' + encode(count) + b',"acks":' + ack_body(acks) + b"}"
        outcome = None
        try:
            answer = await self._transport.once("POST", _RECEIVE_PATH, body, patience=wait)
            outcome = answer.get("acks")
            return answer
        except SidecarError as error:
            outcome = error.document.get("acks")
            raise
        finally:
            self._acks.arrived(acks, outcome)

    async def stream(self, wait: float, count: int) -> AsyncGenerator[Message, None]:
        """Messages one after the other. Those of a batch that were not yielded keep their leases until they are,
        or are given back when the stream is left."""
        batch: deque[Message] = deque()
        keeper = LeaseKeeper(self.extend)
        self._streams[id(batch)] = batch, keeper
        try:
            while True:
                batch.extend(await self.poll_until_some(wait, count))
                keeper.hold(batch)
                yielded: list[Message] = []
                while batch:
                    message = batch.popleft()
                    if not keeper.let_go(message):
                        continue  # it was or will be handed over again
                    if _follows_a_failure(message, yielded):
                        await self.release([message])
                        continue
                    yielded.append(message)
                    yield message
        finally:
            await self._give_back(batch, keeper)
            self._streams.pop(id(batch), None)

    async def ack(self, delivery_id: str, result: Any) -> None:
        """It is processed."""
        await self._acks.ack(delivery_id, result)

    async def ack_by_poll(self, delivery_id: str, result: Any) -> None:
        """It is processed, which the poll that follows at once is to tell, or `ack_by_itself` where none does."""
        await self._acks.board(delivery_id, result)

    def ack_by_itself(self) -> None:
        """No poll follows."""
        self._acks.ask_for_boarded()

    async def nack(
        self, delivery_id: str, mode: NackMode, reason: str | None, retry: RetryPolicy | None = None
    ) -> None:
        """It is not processed. That a second attempt finds it settled means that the first one did it."""
        body: dict[str, Any] = {"delivery_id": delivery_id, "mode": mode}
        if reason is not None:
            body["reason"] = bounded_reason(reason)
        try:
            await self._transport.post(_NACK_PATH, encode(body), retry)
        except StaleLease as error:
            if error.attempts == 1:
                raise

    async def extend(
        self, delivery_ids: Sequence[str], seconds: float, retry: RetryPolicy | None = None
    ) -> dict[str, str]:
        """Leases end `seconds` from now; nothing is changed when one of them has ended (`StaleLease`)."""
        body = encode({"delivery_ids": list(delivery_ids), "seconds": seconds})
        answer = await self._transport.post(_EXTEND_PATH, body, retry)
        return {lease["delivery_id"]: lease["lease_expires_at"] for lease in answer["leases"]}

    async def release(self, messages: Sequence[Message]) -> None:
        """Give back, as far as the sidecar can be reached: what is not given back lapses.

        The last one first: the adapter takes the later ones of an order key back together with an earlier one.
        """
        for message in reversed(messages):
            try:
                await self.nack(message.delivery_id, "release", None, ONCE)
            except StaleLease:
                continue
            except SidecarError as error:
                _log.warning("could not give messages back, their leases will lapse: %s", error)
                return

    async def _give_back(self, batch: deque[Message], keeper: LeaseKeeper) -> None:
        messages = list(batch)
        batch.clear()
        await keeper.close()
        await self.release(messages)


def bounded_reason(text: str) -> str:
    """A reason as the API takes it: bounded, without NUL and lone surrogates."""
    return text[:_REASON_CHARS_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _follows_a_failure(message: Message, earlier: Sequence[Message]) -> bool:
    """Whether one before it in its order came back to the queue: it must not overtake that one."""
    return any(m.settled in {"fail", "release"} and m.order_key == message.order_key for m in earlier)


def _may_pass(error: SidecarError) -> bool:
    """Whether a later poll may do better: anything but a refusal, and what answers but is no sidecar."""
    return error.retryable or (error.status or 0) >= 500
