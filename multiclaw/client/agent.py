"""The face of the client: one agent, talking to its sidecar."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote

from multiclaw.client.batch import send_all
from multiclaw.client.dead_letters import DeadLetters
from multiclaw.client.deliveries import MESSAGES_PATH, Deliveries
from multiclaw.client.discovery import Location, find
from multiclaw.client.dispatch import Dispatcher
from multiclaw.client.encoding import encode
from multiclaw.client.errors import BatchFailed, SidecarError
from multiclaw.client.gaps import Gap, GapHook, GapLog
from multiclaw.client.handlers import H, Handlers
from multiclaw.client.messages import Message, StoredMessage
from multiclaw.client.outbox import Outbox
from multiclaw.client.outgoing import Receipt, SendFields, check_names, outgoing, receipt
from multiclaw.client.retry import RetryPolicy
from multiclaw.client.topology import Topology
from multiclaw.client.transport import ONCE, Transport


class _Open:
    """What an agent has while it is open."""

    def __init__(self, agent: "Agent", transport: Transport, gaps: GapLog) -> None:
        self.transport = transport
        self.deliveries = Deliveries(transport, agent.send, gaps)
        self.stop = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()


class Agent:
    """An agent's way to its team, through its sidecar.

        async with Agent("qa", config="DIR/multiclaw.toml") as agent:
            receipt = await agent.send("@pm", "note/1", {"text": "ready"})
            async for message in agent.messages():
                await message.ack()

    `discovery.py` says how the sidecar is found. `retry_seconds` is how long a call goes on trying while the sidecar
    cannot be reached or asks to come again; a send keeps its idempotency key over all of them. `request_seconds` is
    how long one answer may take; a sidecar that cannot reach its adapter says so after 5 s by default. `on_gap` is
    called with every `Gap` that a poll reports; `gaps` keeps the last 1,000.
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
        on_gap: GapHook | None = None,
    ) -> None:
        self.name = name
        self._location = Location(config, socket, url, token, token_file)
        self._retry = RetryPolicy(retry_seconds=retry_seconds)
        self._request_seconds = request_seconds
        self._gaps = GapLog(on_gap)
        self._handlers = Handlers()
        self._state: _Open | None = None

    async def __aenter__(self) -> Self:
        """Find the sidecar; raises `ConfigurationError`. It need not be up yet: nothing is sent."""
        if self._state is not None:
            raise RuntimeError("this agent is open already")
        endpoint = find(self.name, self._location, os.environ)
        self._state = _Open(self, Transport(endpoint, self._retry, self._request_seconds), self._gaps)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop a `run` and wait for it, give back messages that were not yielded, close the connections."""
        state, self._state = self._opened, None
        state.stop.set()
        try:
            await state.idle.wait()
            await state.deliveries.close()
        finally:
            await state.transport.close()

    @property
    def gaps(self) -> deque[Gap]:
        """The newest gaps that polls have reported, at most 1,000."""
        return self._gaps.gaps

    async def send(
        self,
        to: str,
        type: str,  # noqa: A002 - the envelope's own word
        payload: Any,
        **fields: Unpack[SendFields],
    ) -> Receipt:
        """Send to a channel or `@agent`; return when it is committed by the adapter or by the sidecar's outbox.

        Tried again within `retry_seconds`, always under the same key, so that it can never arrive twice. Raises
        `InvalidMessage` before anything is sent, `Refused`, or `Unavailable`; the last two carry `key`.
        """
        check_names(fields)
        message = outgoing({"to": to, "type": type, "payload": payload, **fields})
        try:
            return receipt(await self._opened.transport.post(MESSAGES_PATH, message.body))
        except SidecarError as error:
            error.key = message.key
            raise

    async def send_many(self, messages: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Send messages given by their envelope's field names, in order, in as few requests as they fit.

        Each has its own key and fate. Raises `InvalidMessage` before anything is sent, with the message's index in
        `field`; and `BatchFailed`, whose `outcomes` tell for each what became of it.
        """
        ready = [outgoing(message, f"/{index}") for index, message in enumerate(messages)]
        outcomes = await send_all(self._opened.transport, ready)
        receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
        if len(receipts) < len(outcomes):
            raise BatchFailed(outcomes)
        return receipts

    async def poll(self, wait: float = 0.0, max: int = 10) -> list[Message]:  # noqa: A002 - the API's own word
        """Up to `max` messages, waiting up to `wait` seconds (at most 60) for the first. One attempt."""
        return await self._opened.deliveries.poll(wait, max)

    def messages(self, wait: float = 30.0, max: int = 10) -> AsyncGenerator[Message, None]:  # noqa: A002 - as `poll`
        """Messages as they come, for ever; each is to be acked or nacked. Polls `max` at a time, `wait` seconds long.

        Goes on through restarts of the sidecar. Messages of a batch keep their leases until they are yielded, and
        are given back when the loop is left. From then on the lease is yours: see `Message.extend`. Where an earlier
        message of the same order was nacked, the later ones of the batch are given back too.
        """
        return self._opened.deliveries.stream(wait, max)

    async def read(self, channel: str, first: int, last: int) -> list[StoredMessage]:
        """The messages of a channel from sequence `first` to `last`, both included, as far as they are retained."""
        messages: list[StoredMessage] = []
        start: int | None = first
        while start is not None:
            path = f"/v1/channels/{quote(channel, safe='@')}/messages"
            page = await self._opened.transport.get(path, {"from": start, "to": last})
            messages += [StoredMessage(envelope) for envelope in page["messages"]]
            start = page.get("next")
        return messages

    async def task(self, task_id: str) -> dict[str, Any]:
        """A task's state and steps, as the API's `TaskView`."""
        return dict(await self._opened.transport.get(f"/v1/tasks/{quote(task_id, safe='')}"))

    async def lineage(self, task_id: str) -> dict[str, Any]:
        """The whole tree a task belongs to, as the API's `LineageView`."""
        return dict(await self._opened.transport.get(f"/v1/tasks/{quote(task_id, safe='')}/lineage"))

    async def scheduled(
        self, *, sender: str | None = None, limit: int = 100, after: str | None = None
    ) -> dict[str, Any]:
        """Your messages that wait for their `deliver_at`, or failed at it, in the order of their times.

        For the orchestrator everybody's, or those of `sender`. `next` of the answer is `after` of the next page.
        """
        filters = {"sender": sender, "limit": limit, "after": after}
        query = {name: value for name, value in filters.items() if value is not None}
        return dict(await self._opened.transport.get("/v1/scheduled", query))

    async def cancel_scheduled(self, key: str, *, sender: str | None = None) -> dict[str, Any]:
        """Have a scheduled message not sent, by its key; `sender` is for the orchestrator. Twice does no harm.

        Raises `Refused` with the type `not-scheduled` where it was sent already.
        """
        whose = "" if sender is None else f"?sender={quote(sender, safe='')}"
        path = f"/v1/scheduled/{quote(key, safe='')}{whose}"
        return dict(await self._opened.transport.call("DELETE", path))

    @property
    def dead_letters(self) -> DeadLetters:
        """What to do about deliveries that died; for the orchestrator."""
        return DeadLetters(self._opened.transport, self.send)

    @property
    def outbox(self) -> Outbox:
        """Your own sends that wait for the adapter, and those that it refused after they had waited."""
        return Outbox(self._opened.transport)

    @property
    def topology(self) -> Topology:
        """Who belongs to the deployment; for the orchestrator, proposals to change that."""
        return Topology(self._opened.transport)

    async def emergency(self, kind: str, summary: str, details: Any = None) -> dict[str, Any]:
        """Call for help through the host's journal; works without the adapter. May be recorded twice if retried."""
        body = encode({"kind": kind, "summary": summary, "details": details})
        return dict(await self._opened.transport.post("/v1/emergency", body))

    async def health(self) -> dict[str, Any]:
        """The sidecar's state, as the API's `SidecarHealth`, also when it is degraded. One attempt."""
        try:
            return dict(await self._opened.transport.call("GET", "/health", retry=ONCE))
        except SidecarError as error:
            if "breaker" in error.document:  # a 503 that says what is wrong is an answer
                return dict(error.document)
            raise

    def on(self, *types: str) -> Callable[[H], H]:
        """Register a function, async or plain, for messages of these types; `"*"` is for all others.

        What it returns is the result that the ack carries. Raising `Refuse` refuses the message for good; raising
        anything else has it handed over again. A plain function runs in a thread.
        """

        def register(handler: H) -> H:
            self._handlers.add(types, handler)
            return handler

        return register

    async def run(
        self,
        *,
        concurrency: int = 1,
        wait: float = 30.0,
        max: int = 10,  # noqa: A002 - as `poll`
    ) -> None:
        """Handle messages until `stop`, in order within a task (or, without one, a channel).

        Up to `concurrency` of different order run at the same time. Leases are kept while messages wait or are
        worked on. `stop` lets running handlers end; cancelling cancels them and gives their messages back. Opens the
        agent where it is not open.
        """
        if not self._handlers:
            raise RuntimeError('there is no handler; register one with @agent.on("task.assign/1") or @agent.on("*")')
        if self._state is None:
            async with self:
                return await self.run(concurrency=concurrency, wait=wait, max=max)
        state = self._state
        if not state.idle.is_set():
            raise RuntimeError("this agent is running already")
        dispatcher = Dispatcher(self.name, state.deliveries, self._handlers, concurrency)
        state.idle.clear()
        try:
            await dispatcher.run(state.stop, wait, max)
        finally:
            state.idle.set()
            state.stop.clear()

    def stop(self) -> None:
        """Have `run` end once the handlers that run now have ended. Call it in the event loop's thread."""
        if self._state is not None:
            self._state.stop.set()

    @property
    def _opened(self) -> _Open:
        if self._state is None:
            raise RuntimeError("the agent is not open; use it inside 'async with Agent(...) as agent:'")
        return self._state
