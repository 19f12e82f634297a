"""A small adapter in memory, which verifies and signs for real, counts what it hears, and fails on request.

It keeps what a sidecar relies on: sequences, deduplication, hand-overs with tokens. It is no model of the adapter's
ordering, leases or durability.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from shared.api import AckRequest, NackRequest
from shared.clock import Clock
from shared.envelope import content_sha256
from shared.keys import Key, Keyring
from shared.lifecycle import serving
from shared.link import (
    ACK_PATH,
    CHANNEL_PATH,
    EXTEND_PATH,
    LINEAGE_PATH,
    MESSAGES_PATH,
    NACK_PATH,
    OPEN_PATH,
    POLL_PATH,
    TASK_PATH,
)
from shared.model import check
from shared.problems import Problem
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_answer, verify_envelope, verify_request
from shared.sockets import listen_unix
from shared.times import iso
from shared.web.routes import JSON, Answer, Call, Route, json_answer
from shared.web.service import Service


@dataclass
class Message:
    """One stored message."""

    channel: str
    sequence: int
    envelope: dict[str, Any]


@dataclass
class FakeAdapter:
    """Serve it with `running`; the fields are its memory and its knobs."""

    keyrings: dict[str, Keyring]
    members: dict[str, list[str]]
    messages: list[Message] = field(default_factory=list)
    answers: dict[tuple[str, str], tuple[bytes, dict[str, Any]]] = field(default_factory=dict)
    queues: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    leased: dict[str, tuple[str, Message]] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    batches: list[list[str]] = field(default_factory=list)
    acks: list[dict[str, Any]] = field(default_factory=list)
    nacks: list[dict[str, Any]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    polls_open: int = 0
    polls_cancelled: int = 0
    polls: list[dict[str, Any]] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    forgotten_us: int = 0
    ready: bool = True
    forging: bool = False
    judge: Callable[[dict[str, Any]], Problem | None] = lambda _: None
    answer: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None
    before_submit: Callable[[], Problem | None] = lambda: None
    before_hand_over: Callable[[], None] = lambda: None
    before_view: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.gate.set()

    @contextlib.asynccontextmanager
    async def running(self, path: Path) -> AsyncIterator[None]:
        """Serve at `path`; what is remembered outlives the block, as a store would."""
        path.parent.mkdir(parents=True, exist_ok=True)
        listener = listen_unix(path)
        service = Service("fake adapter", self._routes(), self._guard, self._seal)
        async with serving(service.server()) as runner:
            await web.SockSite(runner, listener).start()
            try:
                yield
            finally:
                os.unlink(path)  # noqa: PTH108 - the test owns the folder
                self.gate.set()

    def deliver(self, agent: str, channel: str, sequence: int, key: str, *, sender: str = "pm") -> Message:
        """Put a message into an agent's queue, as if it had been sent."""
        envelope = {"to": channel, "type": "note/1", "payload": {"n": sequence}, "idempotency_key": key}
        envelope |= {"sender": sender, "signature": {}, "priority": "normal", "channel_sequence_id": sequence}
        envelope["timestamp_iso8601"] = iso(self.clock.wall_us())
        message = Message(channel, sequence, envelope)
        self.queues[agent].append(message)
        self.arrived.set()
        return message

    def order(self, channel: str) -> list[Any]:
        """Payloads of a channel in sequence."""
        return [m.envelope["payload"] for m in self.messages if m.channel == channel]

    def _routes(self) -> list[Route]:
        calls = [
            ("POST", MESSAGES_PATH, self._submit),
            ("POST", POLL_PATH, self._poll),
            ("POST", ACK_PATH, self._ack),
            ("POST", NACK_PATH, self._nack),
            ("POST", EXTEND_PATH, self._extend),
            ("GET", CHANNEL_PATH, self._echo),
            ("GET", TASK_PATH, self._echo),
            ("GET", OPEN_PATH, self._open),
            ("GET", LINEAGE_PATH, self._echo),
        ]
        routes = [Route(m, path, path, path, h, {200: JSON}, body_bytes_max=2**24) for m, path, h in calls]
        return [*routes, Route("GET", "/health", "health", "health", self._health, {200: JSON}, guarded=False)]

    def _guard(self, call: Call) -> None:
        header = call.request.headers.get(REQUEST_HEADER)
        target = call.request.raw_path
        self.heard.append(target)
        call.agent, _ = verify_request(
            header, call.request.method, target, call.body, self.keyrings, self.clock.wall_us()
        )
        if call.agent in self.removed:
            raise Problem("unauthenticated", f"{call.agent} is no agent any more.")

    def _seal(self, call: Call, answer: Answer) -> None:
        key = Key("forged", b"f" * 32) if self.forging else self.keyrings[call.agent].current
        request = call.request.headers[REQUEST_HEADER]
        answer.headers[ANSWER_HEADER] = sign_answer(key, request, answer.status, answer.body)

    async def _health(self, _: Call) -> Answer:
        self.heard.append("/health")
        return json_answer(200 if self.ready else 503, {})

    async def _submit(self, call: Call) -> Answer:
        envelopes = call.json()["envelopes"]
        self.batches.append([envelope["idempotency_key"] for envelope in envelopes])
        await self.gate.wait()
        if problem := self.before_submit():
            raise problem
        return json_answer(200, {"outcomes": [self._one(envelope) for envelope in envelopes]})

    def _one(self, envelope: dict[str, Any]) -> dict[str, Any]:
        try:
            verify_envelope(envelope, self.keyrings[envelope["sender"]], self.clock.wall_us())
            if problem := self.judge(envelope):
                raise problem
            return self.answer(envelope) or self._store(envelope)
        except Problem as problem:
            return {"code": problem.status, "problem": problem.document()}

    def _store(self, envelope: dict[str, Any]) -> dict[str, Any]:
        channel, scope = envelope["to"], (envelope["sender"], envelope["idempotency_key"])
        digest = content_sha256(envelope)
        if scope in self.answers:
            if self.answers[scope][0] != digest:
                raise Problem("idempotency-conflict", "Other content.", field="/idempotency_key")
            return {"code": 200, "answer": {**self.answers[scope][1], "status": "duplicate"}}
        if channel not in self.members:
            raise Problem("unknown-recipient", "No such channel.", field="/to")
        sequence = sum(message.channel == channel for message in self.messages) + 1
        now = iso(self.clock.wall_us())
        stored = {**envelope, "channel_sequence_id": sequence, "timestamp_iso8601": now, "priority": "normal"}
        self.messages.append(Message(channel, sequence, stored))
        for member in self.members[channel]:
            self.queues[member].append(self.messages[-1])
        self.arrived.set()
        answer = {
            "status": "accepted",
            "channel": channel,
            "channel_sequence_id": sequence,
            "timestamp_iso8601": now,
            "idempotency_key": envelope["idempotency_key"],
            "recipients": [],
        }
        self.answers[scope] = (digest, answer)
        return {"code": 201, "answer": answer}

    async def _poll(self, call: Call) -> Answer:
        body = call.json()
        self.polls.append(body)
        deadline = asyncio.get_running_loop().time() + body["wait"]
        self.polls_open += 1
        try:
            while not self.queues[call.agent] and (left := deadline - asyncio.get_running_loop().time()) > 0:
                self.arrived.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.arrived.wait(), left)
        except asyncio.CancelledError:
            self.polls_cancelled += 1
            raise
        finally:
            self.polls_open -= 1
        answer = {} if body.get("acks") is None else {"acks": self._acked(body["acks"])}
        taken = [self._lease(call.agent) for _ in range(min(body["max"], len(self.queues[call.agent])))]
        self.before_hand_over()
        return json_answer(200, {"messages": taken, **answer})

    def _lease(self, agent: str) -> dict[str, Any]:
        message = self.queues[agent].pop(0)
        token = f"d{len(self.leased) + len(self.over)}"
        self.leased[token] = (agent, message)
        expires = iso(self.clock.wall_us() + 30_000_000)
        flags = {"attempt": 1, "redelivered": False}
        return {"delivery_id": token, "lease_expires_at": expires, "envelope": message.envelope, **flags}

    def lapse(self, token: str) -> None:
        """End a lease: the message is queued again, first, and the token is stale."""
        agent, message = self.leased.pop(token)
        self.over.add(token)
        self.queues[agent].insert(0, message)
        self.arrived.set()

    def _acked(self, body: dict[str, Any]) -> dict[str, Any]:
        """Of acks that a poll carried."""
        try:
            return {"code": 200, "answer": self._settle(body)}
        except Problem as problem:
            return {"code": problem.status, "problem": problem.document()}

    async def _ack(self, call: Call) -> Answer:
        return json_answer(200, self._settle(call.json()))

    def _settle(self, body: dict[str, Any]) -> dict[str, Any]:
        check(AckRequest, body)
        self.acks.append(body)
        ids = body["delivery_ids"]
        if any(token not in self.leased and token not in self.over for token in ids):
            raise Problem("unknown-delivery", "No such delivery.", field="/delivery_ids/0")
        stale = [token for token in ids if token in self.over]
        acked = [token for token in ids if token in self.leased]
        if stale:
            raise Problem("stale-lease", "Over.", field="/delivery_ids", stale=stale, acked=acked)
        return {"acked": acked}

    async def _nack(self, call: Call) -> Answer:
        body = call.json()
        check(NackRequest, body)
        self.nacks.append(body)
        if body["delivery_id"] not in self.leased:
            raise Problem("unknown-delivery", "No such delivery.", field="/delivery_id")
        if body["mode"] == "refuse":
            return json_answer(200, {"delivery_id": body["delivery_id"], "status": "dead"})
        self.lapse(body["delivery_id"])
        return json_answer(200, {"delivery_id": body["delivery_id"], "status": "queued"})

    async def _extend(self, call: Call) -> Answer:
        until = iso(self.clock.wall_us() + 1_000_000)
        leases = [{"delivery_id": token, "lease_expires_at": until} for token in call.json()["delivery_ids"]]
        return json_answer(200, {"leases": leases})

    async def _open(self, _: Call) -> Answer:
        return json_answer(200, {"messages": [], "next": None, "forgotten_before": iso(self.forgotten_us)})

    async def _echo(self, call: Call) -> Answer:
        await self.before_view()
        return json_answer(200, {"path": dict(call.path), "query": dict(call.request.query)})
