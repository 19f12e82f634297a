"""A sidecar that a test commands: real sockets, the agents' API, calls on record, faults on demand.

It keeps the promises that a client relies on: one message per idempotency key, leases with tokens, order per key.
"""

import asyncio
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from aiohttp import web

DEADLINE_SECONDS = 10.0


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    text: str
    authorization: str | None

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Fails:
    """Answer with a problem instead of doing it."""

    status: int = 503
    kind: str = "adapter-unreachable"
    retryable: bool = True
    retry_after: float | None = None


@dataclass(frozen=True)
class LosesAnswer:
    """Do it, then close the connection without an answer."""


@dataclass(frozen=True)
class LosesRequest:
    """Close the connection and do nothing."""


@dataclass(frozen=True)
class Hangs:
    """Do it, then never answer."""


@dataclass(frozen=True)
class Answers:
    """Answer with these very bytes and do nothing."""

    status: int
    body: bytes


Fault = Fails | Hangs | LosesAnswer | LosesRequest | Answers


@dataclass
class Held:
    """A message of the queue and its present hand-over."""

    envelope: dict[str, Any]
    token: str | None = None
    until: float = 0.0
    attempt: int = 0

    @property
    def key(self) -> str:
        """What it is in order with."""
        return self.envelope.get("task_id") or self.envelope["to"]


class FoundProblem(Exception):  # noqa: N818 - the term of RFC 9457
    """An answer that is a problem."""

    def __init__(self, status: int, kind: str, **members: Any) -> None:
        self.status = status
        self.document = {"type": kind, "title": kind, "status": status, "detail": kind, "retryable": False, **members}


@dataclass
class FakeSidecar:
    """Use as `async with FakeSidecar(path) as sidecar`; `stop` and `start` make a restart, with all that it knows."""

    path: Path | None
    lease_seconds: float = 30.0
    token: str | None = None
    calls: list[Received] = field(default_factory=list)
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    live: list[Held] = field(default_factory=list)
    acked: list[tuple[int, Any]] = field(default_factory=list)
    nacked: list[tuple[int, str, str | None]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    channel: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._tokens = itertools.count(1)
        self._sequences = itertools.count(1)
        self._changed = asyncio.Event()
        self._settled: dict[str, str] = {}
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, with all that is known from before."""
        server = web.Server(self._serve, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.05)
        await self._runner.setup()
        if self.path is None:
            await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
            self.port = self._runner.addresses[0][1]
        else:
            self.path.unlink(missing_ok=True)
            await web.UnixSite(self._runner, self.path).start()

    async def stop(self) -> None:
        """Close the socket and every connection."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def fail(self, path: str, *faults: Fault) -> None:
        """What becomes of the next calls of this path."""
        self._faults[path].extend(faults)

    def queue(self, *envelopes: dict[str, Any]) -> None:
        """Messages for the agent, in this order."""
        self.live.extend(Held(envelope) for envelope in envelopes)
        self._tell()

    def bodies(self, path: str) -> list[Any]:
        """The bodies of all calls of a path."""
        return [call.json for call in self.calls if call.path == path and call.text]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what is on record."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        text = await request.text()
        call = Received(
            request.method,
            request.raw_path.partition("?")[0],
            dict(request.query),
            text,
            request.headers.get("Authorization"),
        )
        self.calls.append(call)
        self._tell()
        faults = self._faults[call.path]
        fault = faults.popleft() if faults else None
        try:
            response = await self._respond(call, fault)
        finally:
            self._tell()
        if isinstance(fault, Hangs):
            await asyncio.Event().wait()
        if isinstance(fault, LosesAnswer | LosesRequest):
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _respond(self, call: Received, fault: Fault | None) -> web.Response:
        if isinstance(fault, Answers):
            return web.Response(status=fault.status, body=fault.body)
        try:
            if isinstance(fault, Fails):
                raise FoundProblem(fault.status, fault.kind, retryable=fault.retryable, retry_after=fault.retry_after)
            if isinstance(fault, LosesRequest):
                return web.Response()
            if self.token is not None and call.authorization != f"Bearer {self.token}":
                raise FoundProblem(401, "unauthenticated")
            status, answer = await self._act(call)
            return web.json_response(answer, status=status)
        except FoundProblem as problem:
            return web.json_response(problem.document, status=problem.status)

    async def _act(self, call: Received) -> tuple[int, Any]:
        if call.path == "/v1/messages/receive":
            return 200, await self._receive(call.json)
        if call.method == "POST":
            posts = {
                "/v1/messages": self._send,
                "/v1/messages/batch": self._batch,
                "/v1/messages/ack": self._ack,
                "/v1/messages/nack": self._nack,
                "/v1/messages/extend": self._extend,
                "/v1/emergency": lambda _: (200, {"recorded": "journald"}),
            }
            return posts[call.path](call.json)
        if call.path == "/v1/messages":
            return 200, await self._poll(float(call.query["wait"]), int(call.query["max"]))
        if call.path == "/v1/channels/product/messages":
            return 200, self._range(int(call.query["from"]), int(call.query["to"]))
        if call.path == "/health":
            return 200, {"status": "ok", "agent": "qa", "breaker": "closed"}
        return 200, {"asked": call.path}

    def _batch(self, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {"outcomes": [self._outcome(message) for message in body["messages"]]}

    def _send(self, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if message["to"] == "nowhere":
            raise FoundProblem(422, "unknown-recipient", field="/to")
        key = message["idempotency_key"]
        if message.get("deliver_at") is not None:
            return 202, {"status": "scheduled", "deliver_at": message["deliver_at"], "idempotency_key": key}
        if key in self.sent:
            return 200, {**self.sent[key], "status": "duplicate"}
        self.sent[key] = {
            "status": "accepted",
            "channel": message["to"],
            "channel_sequence_id": next(self._sequences),
            "timestamp_iso8601": "2026-01-01T00:00:00.000000Z",
            "idempotency_key": key,
            "recipients": [{"agent": "pm", "status": "queued", "unread": 3, "last_seen": None}],
        }
        return 201, self.sent[key]

    def _outcome(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            faults = self._faults[message["to"]]
            if faults and isinstance(fault := faults.popleft(), Fails):
                raise FoundProblem(fault.status, fault.kind, retryable=fault.retryable)
            code, answer = self._send(message)
        except FoundProblem as problem:
            return {"code": problem.status, "problem": problem.document}
        return {"code": code, "answer": answer}

    async def _poll(self, wait: float, count: int) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while not (ready := self._ready(count)) and loop.time() < deadline:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + 0.05)):
                    await self._changed.wait()
            except TimeoutError:
                continue  # a lease may have lapsed
        gaps, self.gaps = self.gaps, []
        return {"messages": [self._hand_over(held) for held in ready], "gaps": gaps}

    def _ready(self, count: int) -> list[Held]:
        now = asyncio.get_running_loop().time()
        ready: list[Held] = []
        blocked: set[str] = set()
        for held in self.live:
            if held.token is not None and held.until > now:
                blocked.add(held.key)
            elif held.key not in blocked:
                ready.append(held)
        return ready[:count]

    def _hand_over(self, held: Held) -> dict[str, Any]:
        held.token = f"t{next(self._tokens)}"
        held.until = asyncio.get_running_loop().time() + self.lease_seconds
        held.attempt += 1
        return {
            "delivery_id": held.token,
            "attempt": held.attempt,
            "redelivered": held.attempt > 1,
            "lease_expires_at": self._moment(self.lease_seconds),
            "envelope": held.envelope,
        }

    def _ack(self, body: dict[str, Any]) -> tuple[int, Any]:
        results = body.get("results", {})
        stale, acked = [], []
        for token in body["delivery_ids"]:
            held = self._find(token)
            if held is not None:
                self.live.remove(held)
                self._settled[token] = "acked"
                self.acked.append((held.envelope["channel_sequence_id"], results.get(token)))
            (acked if self._settled.get(token) == "acked" else stale).append(token)
        if stale:
            raise FoundProblem(409, "stale-lease", stale=stale, acked=acked)
        return 200, {"acked": acked, "deferred": []}

    async def _receive(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            code, answer = self._ack(body["acks"])
        except FoundProblem as problem:
            acks = {"code": problem.status, "problem": problem.document}
            return await self._poll(0, body["max"]) | {"acks": acks}
        self._tell()
        return await self._poll(body["wait"], body["max"]) | {"acks": {"code": code, "answer": answer}}

    def _nack(self, body: dict[str, Any]) -> tuple[int, Any]:
        held = self._find(body["delivery_id"])
        if held is None:
            raise FoundProblem(409, "stale-lease", stale=[body["delivery_id"]])
        self.nacked.append((held.envelope["channel_sequence_id"], body["mode"], body.get("reason")))
        if body["mode"] == "refuse":
            self.live.remove(held)
            return 200, {"delivery_id": body["delivery_id"], "status": "dead"}
        for follower in self.live[self.live.index(held) :]:
            if follower.key == held.key:
                follower.token = None
        return 200, {"delivery_id": body["delivery_id"], "status": "queued"}

    def _extend(self, body: dict[str, Any]) -> tuple[int, Any]:
        found = [(token, self._find(token)) for token in body["delivery_ids"]]
        stale = [token for token, held in found if held is None]
        if stale:
            raise FoundProblem(409, "stale-lease", stale=stale[:1])
        for _, held in found:
            assert held is not None
            held.until = asyncio.get_running_loop().time() + body["seconds"]
        moment = self._moment(body["seconds"])
        return 200, {"leases": [{"delivery_id": token, "lease_expires_at": moment} for token, _ in found]}

    def _range(self, first: int, last: int) -> dict[str, Any]:
        found = [e for e in self.channel if first <= e["channel_sequence_id"] <= last]
        page = {"channel": "product", "messages": found[:2], "last": len(self.channel)}
        return page | ({"next": found[2]["channel_sequence_id"]} if len(found) > 2 else {})

    def _find(self, token: str) -> Held | None:
        now = asyncio.get_running_loop().time()
        return next((held for held in self.live if held.token == token and held.until > now), None)

    @staticmethod
    def _moment(seconds: float) -> str:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def envelope(sequence: int, **fields: Any) -> dict[str, Any]:
    """An envelope as a receiver gets it; name only what matters."""
    return {
        "idempotency_key": f"00000000-0000-7000-8000-{sequence:012}",
        "sender": "pm",
        "to": "@qa",
        "type": "note/1",
        "payload": {"n": sequence},
        "channel_sequence_id": sequence,
        "timestamp_iso8601": "2026-01-01T00:00:00.000000Z",
        "priority": "normal",
        **fields,
    }
