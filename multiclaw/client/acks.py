"""Acks on their way: those that are asked for in one turn of the event loop leave in one request, and those whose agent
polls next leave with that poll.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from multiclaw.client.encoding import encode
from multiclaw.client.errors import Refused, StaleLease, from_problem, unreachable
from multiclaw.client.transport import Transport

ACK_PATH: Final = "/v1/messages/ack"
ACKS_MAX: Final = 100
"""Deliveries that one request may name."""
_CLOSED: Final = "the agent was closed before this ack was answered"


@dataclass(slots=True)
class Ack:
    """One hand-over that is processed, its encoded result, and who waits to hear what became of that."""

    delivery_id: str
    result: bytes | None
    waiters: list["asyncio.Future[None]"] = field(default_factory=list)

    def settle(self, error: Exception | None) -> None:
        """Tell those who wait."""
        for waiter in self.waiters:
            if waiter.done():  # its caller was cancelled meanwhile
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


class AckQueue:
    """Coalesces acks; each caller still learns what became of its own."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: dict[str, Ack] = {}
        self._boarding: dict[str, Ack] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def ack(self, delivery_id: str, result: Any) -> None:
        """Return when it is acked. A result of None is none; one that is not JSON raises `InvalidMessage`."""
        ack = _made(delivery_id, result)
        self._ask([ack])
        await ack.waiters[0]

    def board(self, delivery_id: str, result: Any) -> "asyncio.Future[None]":
        """Have it leave with the next poll, which must follow at once; the future is done when it is acked."""
        ack = self._boarding[delivery_id] = _made(delivery_id, result)
        return ack.waiters[0]

    @property
    def has_boarded(self) -> bool:
        """Whether the next poll has acks to carry."""
        return bool(self._boarding)

    def depart(self) -> list[Ack]:
        """Those that the poll which leaves now carries. They are to be told what became of them, by `arrived`."""
        leaving = list(self._boarding.values())[:ACKS_MAX]
        for ack in leaving:
            del self._boarding[ack.delivery_id]
        return leaving

    def arrived(self, acks: Sequence[Ack], outcome: Any) -> None:
        """What the answer to their poll says of them, an `AckOutcome`. Where it settles nothing they are asked for in
        a request of their own."""
        told = isinstance(outcome, dict)
        problem = outcome.get("problem") if told else None
        error = None if problem is None else from_problem(outcome["code"], problem)
        if isinstance(error, StaleLease):
            _settle_stale(acks, error)
        elif told and error is None:
            _settle_all(acks, None)
        else:
            self._ask(acks)

    def ask_for_boarded(self) -> None:
        """There will be no poll: have those that wait for it leave by themselves."""
        self._ask(list(self._boarding.values()))
        self._boarding.clear()

    def _ask(self, acks: Sequence[Ack]) -> None:
        if acks and not self._waiting:
            flush = asyncio.create_task(self._flush())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        for ack in acks:
            self._waiting.setdefault(ack.delivery_id, Ack(ack.delivery_id, ack.result)).waiters.extend(ack.waiters)

    async def close(self) -> None:
        """End what is still under way; a caller whose ack has no answer gets `Unavailable`."""
        flushes = list(self._flushes)
        for flush in flushes:
            flush.cancel()
        await asyncio.gather(*flushes, return_exceptions=True)
        _settle_all((*self._boarding.values(), *self._waiting.values()), unreachable(_CLOSED))

    async def _flush(self) -> None:
        acks, self._waiting = list(self._waiting.values()), {}
        try:
            for start in range(0, len(acks), ACKS_MAX):
                await self._send(acks[start : start + ACKS_MAX])
        finally:
            _settle_all(acks, unreachable(_CLOSED))  # says nothing to those that have their answer

    async def _send(self, acks: Sequence[Ack]) -> None:
        try:
            await self._transport.post(ACK_PATH, ack_body(acks))
        except StaleLease as error:
            _settle_stale(acks, error)
        except Refused as error:
            if len(acks) == 1:
                acks[0].settle(error)
                return
            for ack in acks:  # one of them is at fault: the others must not suffer for it
                await self._send([ack])
        except Exception as error:  # whatever it is, the callers wait to be told
            _settle_all(acks, error)
        else:
            _settle_all(acks, None)


def _made(delivery_id: str, result: Any) -> Ack:
    encoded = None if result is None else encode(result, "/result")
    return Ack(delivery_id, encoded, [asyncio.get_running_loop().create_future()])


def _settle_all(acks: Sequence[Ack], error: Exception | None) -> None:
    for ack in acks:
        ack.settle(error)


def _settle_stale(acks: Sequence[Ack], error: StaleLease) -> None:
    stale = error.stale or [ack.delivery_id for ack in acks]
    for ack in acks:
        ack.settle(error if ack.delivery_id in stale else None)


def ack_body(acks: Sequence[Ack]) -> bytes:
    """An `AckRequest`."""
    ids = encode([ack.delivery_id for ack in acks])
    results = b",".join(encode(ack.delivery_id) + b":" + ack.result for ack in acks if ack.result is not None)
    return b'{"delivery_ids":' + ids + (b',"results":{' + results + b"}}" if results else b"}")
