"""Acks that are asked for in one turn of the event loop leave in one request."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from multiclaw.client.encoding import encode
from multiclaw.client.errors import Refused, StaleLease, unreachable
from multiclaw.client.transport import Transport

ACK_PATH: Final = "/v1/messages/ack"
ACKS_MAX: Final = 100
"""Deliveries that one request may name."""


@dataclass(slots=True)
class _Ack:
    delivery_id: str
    result: bytes | None
    waiters: list["asyncio.Future[None]"] = field(default_factory=list)

    def settle(self, error: Exception | None) -> None:
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
        self._waiting: dict[str, _Ack] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def ack(self, delivery_id: str, result: Any) -> None:
        """Return when it is acked. A result of None is none; one that is not JSON raises `InvalidMessage`."""
        encoded = None if result is None else encode(result, "/result")
        waiter = asyncio.get_running_loop().create_future()
        if not self._waiting:
            flush = asyncio.create_task(self._flush())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        entry = self._waiting.setdefault(delivery_id, _Ack(delivery_id, encoded))
        entry.waiters.append(waiter)
        await waiter

    async def close(self) -> None:
        """End what is still under way; a caller whose ack has no answer gets `Unavailable`."""
        flushes = list(self._flushes)
        for flush in flushes:
            flush.cancel()
        await asyncio.gather(*flushes, return_exceptions=True)

    async def _flush(self) -> None:
        acks, self._waiting = list(self._waiting.values()), {}
        try:
            for start in range(0, len(acks), ACKS_MAX):
                await self._send(acks[start : start + ACKS_MAX])
        finally:
            for ack in acks:  # says nothing to those that have their answer
                ack.settle(unreachable("the agent was closed before this ack was answered"))

    async def _send(self, acks: Sequence[_Ack]) -> None:
        try:
            await self._transport.post(ACK_PATH, _body(acks))
        except StaleLease as error:
            stale = error.stale or [ack.delivery_id for ack in acks]
            for ack in acks:
                ack.settle(error if ack.delivery_id in stale else None)
        except Refused as error:
            if len(acks) == 1:
                acks[0].settle(error)
                return
            for ack in acks:  # one of them is at fault: the others must not suffer for it
                await self._send([ack])
        except Exception as error:  # whatever it is, the callers wait to be told
            for ack in acks:
                ack.settle(error)
        else:
            for ack in acks:
                ack.settle(None)


def _body(acks: Sequence[_Ack]) -> bytes:
    ids = encode([ack.delivery_id for ack in acks])
    results = b",".join(encode(ack.delivery_id) + b":" + ack.result for ack in acks if ack.result is not None)
    return b'{"delivery_ids":' + ids + (b',"results":{' + results + b"}}" if results else b"}")
