"""The handler form: poll, hand each message to its handler in order, tell the sidecar how it went.

    returned        ack, with the returned value as the result where it is JSON; by the next poll, where that follows
    raised Refuse   nack `refuse`: a dead letter at once
    raised else     nack `fail`: it comes again, and what waits behind it in its order is given back
    cancelled       nack `release`: it comes again, at no cost

What may run is decided in `lanes.py`; this file does it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from multiclaw.client.deliveries import Deliveries
from multiclaw.client.errors import InvalidMessage, MulticlawError, Refuse, Refused, StaleLease
from multiclaw.client.handlers import Handler, Handlers, call
from multiclaw.client.lanes import Lanes
from multiclaw.client.leases import LeaseKeeper
from multiclaw.client.messages import Message, NackMode

_log = logging.getLogger(__name__)


class Dispatcher:
    """One run of the handler form."""

    def __init__(self, agent: str, deliveries: Deliveries, handlers: Handlers, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self._agent = agent
        self._deliveries = deliveries
        self._handlers = handlers
        self._lanes: Lanes[Message] = Lanes(concurrency)
        self._keeper = LeaseKeeper(deliveries.extend)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"multiclaw-{agent}")
        self._calls: set[asyncio.Task[Any]] = set()
        self._running: dict[asyncio.Task[None], Message] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._ending = False
        self._poll: asyncio.Task[list[Message]] | None = None

    async def run(self, stop: asyncio.Event, wait: float, count: int) -> None:
        """Work until `stop` is set; then running handlers end, and what waits is given back.

        When cancelled, running async handlers are cancelled too and their messages given back; a handler in a thread
        cannot be, and is waited for. What is being told to the sidecar is told to its end, unless cancelled again.
        """
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._turn(stopped, wait, count)
        except asyncio.CancelledError:
            for work in self._calls:
                work.cancel()
            raise
        finally:
            stopped.cancel()
            await self._wind_down()
            await self._keeper.close()
            self._threads.shutdown(wait=False)

    async def _turn(self, stopped: "asyncio.Task[Any]", wait: float, count: int) -> None:
        """Start what may start, poll where a worker is idle, and wait until something has ended."""
        await self._start_ready()
        if self._poll is None and self._lanes.has_room:
            self._poll = asyncio.create_task(self._deliveries.poll_until_some(wait, count))
        waited = {stopped, *self._running} | (set() if self._poll is None else {self._poll})
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in self._running if task.done()]:
            self._reap(task)
        if self._poll is not None and self._poll.done():
            poll, self._poll = self._poll, None
            messages = poll.result()
            self._keeper.hold(messages)
            self._lanes.add(messages)

    async def _start_ready(self) -> None:
        while (message := self._lanes.start()) is not None:
            if self._keeper.is_live(message):
                self._running[asyncio.create_task(self._handle(message))] = message
            else:
                _log.info("the lease of %r was lost before its turn; it comes again", message)
                await self._abandon(message)
                self._lanes.finish(message.order_key)

    def _reap(self, task: "asyncio.Task[None]") -> None:
        message = self._running.pop(task)
        self._keeper.let_go(message)
        self._lanes.finish(message.order_key)
        if not task.cancelled():
            task.result()

    async def _wind_down(self) -> None:
        """End the poll, give back what waits, and wait for what runs, and for what is told."""
        waiting, self._ending = self._lanes.drain(), True
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.wait({self._poll})
            if not self._poll.cancelled() and self._poll.exception() is None:
                waiting += self._poll.result()
        self._deliveries.ack_by_itself()
        await self._give_back(waiting)
        try:
            await self._all_ended()
        except asyncio.CancelledError:
            for task in (*self._calls, *self._running, *self._telling):
                task.cancel()
            await self._all_ended()
            raise
        for task in list(self._running):
            self._reap(task)

    async def _all_ended(self) -> None:
        if ending := {*self._running, *self._telling}:
            await asyncio.wait(ending)

    async def _handle(self, message: Message) -> None:
        """Call the handler and tell how it went. Returns when the lane may move on."""
        handler = self._handlers.find(message.type)
        try:
            if handler is None:
                raise Refuse(f"{self._agent} has no handler for {message.type!r}")
            result = await self._call(handler, message)
        except Refuse as refusal:
            await self._nack(message, "refuse", str(refusal) or "refused by its handler")
        except asyncio.CancelledError:
            await self._abandon(message)
            await self._give_back([message])
            raise
        except Exception as error:
            _log.exception("the handler of %r failed", message)
            await self._nack(message, "fail", f"{type(error).__name__}: {error}")
        else:
            await self._ack(message, result)

    async def _call(self, handler: Handler, message: Message) -> Any:
        """The handler in a task of its own, which can be cancelled without harm to what is told of it."""
        work = asyncio.create_task(call(handler, message, self._threads))
        self._calls.add(work)
        try:
            return await work
        finally:
            self._calls.discard(work)

    async def _settled_by_handler(self, message: Message) -> bool:
        """Whether the handler told by itself how it went; a nack of its own stops its order like ours."""
        if message.settled in {"fail", "release"}:
            await self._abandon(message)
        return message.settled is not None

    async def _ack(self, message: Message, result: Any) -> None:
        if await self._settled_by_handler(message):
            return
        if self._is_followed_by_poll(message):
            telling = asyncio.create_task(self._tell(message, result, by_poll=True))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
            await asyncio.sleep(0)  # it has begun when the poll does
        else:
            await self._tell(message, result)

    def _is_followed_by_poll(self, message: Message) -> bool:
        """Whether the next thing that happens, once this message is done with, is a poll."""
        polls_next = self._poll is None and not self._ending and self._lanes.is_last(message.order_key)
        return polls_next and self._deliveries.carries

    async def _tell(self, message: Message, result: Any, *, by_poll: bool = False) -> None:
        """That it is processed. Where that fails nothing of its order may follow in this process."""
        try:
            await self._ack_with(message, result, message.ack_by_poll if by_poll else message.ack)
        except MulticlawError as error:
            _log.warning("%r was processed, but that could not be told: %s", message, error)
            if not by_poll:
                await self._abandon(message)

    async def _ack_with(self, message: Message, result: Any, ack: Callable[[Any], Awaitable[None]]) -> None:
        try:
            await ack(result)
        except StaleLease:
            raise
        except (InvalidMessage, Refused) as error:
            if result is None:
                raise
            _log.warning("the result of %r is not taken (%s); it is acked without", message, error)
            await message.ack()

    async def _nack(self, message: Message, mode: NackMode, reason: str) -> None:
        """A refused message is out of the way of the later ones; a failed one is not."""
        if await self._settled_by_handler(message):
            return
        if mode != "refuse":
            await self._abandon(message)
        try:
            await message.nack(mode, reason)
        except MulticlawError as error:
            _log.warning("%r was not processed, and that could not be told: %s", message, error)
            await self._abandon(message)

    async def _abandon(self, message: Message) -> None:
        """Give back what waits behind it in its order."""
        await self._give_back(self._lanes.abandon(message.order_key))

    async def _give_back(self, messages: list[Message]) -> None:
        for message in messages:
            self._keeper.let_go(message)
        await self._deliveries.release(messages)
