"""The client for code without an event loop: every call is the async one, run in a thread of its own."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from multiclaw.client.agent import Agent
from multiclaw.client.gaps import Gap
from multiclaw.client.handlers import H
from multiclaw.client.messages import Message, NackMode, StoredMessage
from multiclaw.client.outgoing import Receipt, SendFields
from multiclaw.client.sync_dead_letters import SyncDeadLetters
from multiclaw.client.sync_outbox import SyncOutbox

R = TypeVar("R")

_NOT_OPEN: Final = "the agent is not open; use it inside 'with SyncAgent(...) as agent:'"


class SyncAgent:
    """`Agent` without `async`: same names, same promises. Calls may come from any thread, handlers' included.

        with SyncAgent("qa", config="DIR/multiclaw.toml") as agent:
            agent.send("@pm", "note/1", {"text": "ready"})
            for message in agent.messages():
                message.ack()

    Handlers are plain functions and get a `SyncMessage`; `on_gap` is called in a thread.
    """

    def __init__(  # noqa: PLR0913 - all but the name are options, by keyword
        self,
        name: str,
        *,
        config: str | os.PathLike[str] | None = None,
        socket: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        retry_seconds: float = 30.0,
        request_seconds: float = 15.0,
        on_gap: Callable[[Gap], Any] | None = None,
    ) -> None:
        async def hear(gap: Gap) -> None:
            if on_gap is not None:
                await asyncio.to_thread(on_gap, gap)

        self.name = name
        self._agent = Agent(
            name,
            config=config,
            socket=socket,
            url=url,
            token=token,
            token_file=token_file,
            retry_seconds=retry_seconds,
            request_seconds=request_seconds,
            on_gap=hear,
        )
        self._thread: _LoopThread | None = None

    def __enter__(self) -> Self:
        """Find the sidecar, and start the thread."""
        if self._thread is not None:
            raise RuntimeError("this agent is open already")
        self._thread = _LoopThread(f"multiclaw-{self.name}")
        try:
            self._call(self._agent.__aenter__())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, and end the thread."""
        try:
            self._call(self._agent.__aexit__(kind, error, trace))
        finally:
            self._close()

    @property
    def gaps(self) -> deque[Gap]:
        """As `Agent.gaps`."""
        return self._agent.gaps

    def send(
        self,
        to: str,
        type: str,  # noqa: A002 - the envelope's own word
        payload: Any,
        **fields: Unpack[SendFields],
    ) -> Receipt:
        """As `Agent.send`."""
        return self._call(self._agent.send(to, type, payload, **fields))

    def send_many(self, messages: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """As `Agent.send_many`."""
        return self._call(self._agent.send_many(messages))

    def poll(self, wait: float = 0.0, max: int = 10) -> list["SyncMessage"]:  # noqa: A002 - the API's own word
        """As `Agent.poll`."""
        return [SyncMessage(message, self._call) for message in self._call(self._agent.poll(wait, max))]

    def messages(self, wait: float = 30.0, max: int = 10) -> Iterator["SyncMessage"]:  # noqa: A002 - as `poll`
        """As `Agent.messages`; leaving the loop gives back at once what was not yielded."""
        stream = self._agent.messages(wait, max)

        async def following() -> Message:
            return await anext(stream)

        try:
            while True:
                yield SyncMessage(self._call(following()), self._call)
        finally:
            if self._thread is not None:  # closing the agent closed the stream
                self._call(stream.aclose())

    def read(self, channel: str, first: int, last: int) -> list[StoredMessage]:
        """As `Agent.read`."""
        return self._call(self._agent.read(channel, first, last))

    def task(self, task_id: str) -> dict[str, Any]:
        """As `Agent.task`."""
        return self._call(self._agent.task(task_id))

    def lineage(self, task_id: str) -> dict[str, Any]:
        """As `Agent.lineage`."""
        return self._call(self._agent.lineage(task_id))

    @property
    def dead_letters(self) -> SyncDeadLetters:
        """As `Agent.dead_letters`."""
        if self._thread is None:
            raise RuntimeError(_NOT_OPEN)
        return SyncDeadLetters(self._agent.dead_letters, self._call)

    @property
    def outbox(self) -> SyncOutbox:
        """As `Agent.outbox`."""
        if self._thread is None:
            raise RuntimeError(_NOT_OPEN)
        return SyncOutbox(self._agent.outbox, self._call)

    def scheduled(self, *, sender: str | None = None, limit: int = 100, after: str | None = None) -> dict[str, Any]:
        """As `Agent.scheduled`."""
        return self._call(self._agent.scheduled(sender=sender, limit=limit, after=after))

    def cancel_scheduled(self, key: str, *, sender: str | None = None) -> dict[str, Any]:
        """As `Agent.cancel_scheduled`."""
        return self._call(self._agent.cancel_scheduled(key, sender=sender))

    def emergency(self, kind: str, summary: str, details: Any = None) -> dict[str, Any]:
        """As `Agent.emergency`."""
        return self._call(self._agent.emergency(kind, summary, details))

    def health(self) -> dict[str, Any]:
        """As `Agent.health`."""
        return self._call(self._agent.health())

    def on(self, *types: str) -> Callable[[H], H]:
        """As `Agent.on`, for plain functions that take a `SyncMessage`."""

        def register(handler: H) -> H:
            def handle(message: Message) -> Any:
                return handler(SyncMessage(message, self._call))

            self._agent.on(*types)(handle)
            return handler

        return register

    def run(self, *, concurrency: int = 1, wait: float = 30.0, max: int = 10) -> None:  # noqa: A002 - as `poll`
        """As `Agent.run`; Ctrl-C ends it once the running handlers have ended."""
        if self._thread is None:
            with self:
                return self.run(concurrency=concurrency, wait=wait, max=max)
        return self._call(self._agent.run(concurrency=concurrency, wait=wait, max=max))

    def stop(self) -> None:
        """As `Agent.stop`, from any thread or signal handler."""
        if self._thread is not None:
            self._thread.soon(self._agent.stop)

    def _call(self, work: Coroutine[Any, Any, R]) -> R:
        if self._thread is None:
            work.close()
            raise RuntimeError(_NOT_OPEN)
        return self._thread.call(work)

    def _close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()


class SyncMessage(StoredMessage):
    """`Message` without `async`."""

    __slots__ = ("_call", "_message")

    def __init__(self, message: Message, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__(message.envelope)
        self._message = message
        self._call = call

    @property
    def delivery_id(self) -> str:
        """The hand-over, and its lease token."""
        return self._message.delivery_id

    @property
    def attempt(self) -> int:
        """Hand-overs of it to this agent, this one included."""
        return self._message.attempt

    @property
    def redelivered(self) -> bool:
        """Whether it was handed over before."""
        return self._message.redelivered

    @property
    def lease_expires_at(self) -> str:
        """When the lease ends: RFC 3339."""
        return self._message.lease_expires_at

    @property
    def settled(self) -> str | None:
        """What was told of it: `ack`, the mode of a nack, or None."""
        return self._message.settled

    def ack(self, result: Any = None) -> None:
        """As `Message.ack`."""
        self._call(self._message.ack(result))

    def nack(self, mode: NackMode = "fail", reason: str | None = None) -> None:
        """As `Message.nack`."""
        self._call(self._message.nack(mode, reason))

    def extend(self, seconds: float) -> None:
        """As `Message.extend`."""
        self._call(self._message.extend(seconds))

    def reply(
        self,
        type: str,  # noqa: A002 - the envelope's own word
        payload: Any,
        *,
        to: str | None = None,
        **fields: Unpack[SendFields],
    ) -> Receipt:
        """As `Message.reply`."""
        receipt: Receipt = self._call(self._message.reply(type, payload, to=to, **fields))
        return receipt


class _Call(Generic[R]):
    """A coroutine on its way through the loop. `outcome` is set when it has ended, also by being cancelled."""

    def __init__(self, work: Coroutine[Any, Any, R]) -> None:
        self._work = work
        self._task: asyncio.Task[R] | None = None
        self.outcome: Future[R] = Future()

    def start(self) -> None:
        """Begin; in the loop."""
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Interrupt; in the loop, after `start`."""
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: "asyncio.Task[R]") -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.outcome.set_result(task.result())
        else:
            self.outcome.set_exception(error)


class _LoopThread:
    """An event loop in a thread that does not outlive the program."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._closing: asyncio.Event
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def call(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of a coroutine. Where the caller is interrupted, so is the coroutine."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a SyncAgent cannot be called from inside its own event loop")
        call = _Call(work)
        self.soon(call.start)
        try:
            return call.outcome.result()
        except BaseException:  # KeyboardInterrupt among them: do not leave it behind, half done
            if not call.outcome.done():
                self.soon(call.cancel)
                wait([call.outcome])
            raise

    def soon(self, act: Callable[[], None]) -> None:
        """Run `act` in the loop."""
        self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        """End the loop and wait for its thread."""
        self.soon(self._closing.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._ready.set()
        await self._closing.wait()
