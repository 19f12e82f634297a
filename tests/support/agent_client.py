"""An agent's end of its sidecar, by hand: one HTTP call at a time, no retry, nothing hidden."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

JSON_HEADERS = {"Content-Type": "application/json"}
_WHOLE_BYTES_MAX = 2**20
"""aiohttp warns of larger bodies in one piece."""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """One answer: its status, its JSON document (or text), and its content type."""

    status: int
    document: Any
    content_type: str


class AgentClient:
    """Speaks to one sidecar, over its Unix socket or to `url` (loopback TCP). Used with `async with`."""

    def __init__(self, target: Path | str, token: str | None = None, seconds_max: float = 90.0) -> None:
        over_tcp = isinstance(target, str)
        self._base = target if isinstance(target, str) else "http://sidecar"
        self._socket = None if over_tcp else target
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._seconds_max = seconds_max
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector() if self._socket is None else aiohttp.UnixConnector(str(self._socket))
        timeout = aiohttp.ClientTimeout(total=self._seconds_max)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> AgentAnswer:
        """One call; `body` as JSON, or as bytes as they are. Raises `aiohttp.ClientError` where no answer came."""
        assert self._session is not None, "use `async with`"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = {**JSON_HEADERS, **(headers or {})}
        whole = data is None or len(data) <= _WHOLE_BYTES_MAX
        stream = data if whole else io.BytesIO(data or b"")
        async with self._session.request(method, self._base + target, data=stream, headers=sent) as response:
            content = await response.read()
            document = json.loads(content) if "json" in response.content_type else content.decode()
            return AgentAnswer(response.status, document, response.content_type)

    async def send(self, to: str = "product", **fields: Any) -> AgentAnswer:
        """Send a note, or what `fields` say."""
        return await self.call(
            "POST", "/v1/messages", {"to": to, "type": "note/1", "payload": {"text": "hello"}, **fields}
        )

    async def poll(self, wait: float = 0, count: int = 10) -> AgentAnswer:
        """Take messages."""
        return await self.call("GET", f"/v1/messages?wait={wait:g}&max={count}")

    async def take(self, count: int, seconds_max: float = 15.0) -> list[dict[str, Any]]:
        """Poll until `count` messages came, nothing acknowledged between; fails when a poll stays empty so long."""
        taken: list[dict[str, Any]] = []
        while len(taken) < count:
            answer = await self.poll(wait=seconds_max, count=count - len(taken))
            assert answer.status == 200, answer.document
            assert answer.document["messages"], f"{len(taken)} of {count} messages came"
            taken += answer.document["messages"]
        return taken

    async def ack(self, *delivery_ids: str, results: dict[str, Any] | None = None) -> AgentAnswer:
        """Acknowledge."""
        body: dict[str, Any] = {"delivery_ids": list(delivery_ids)}
        return await self.call("POST", "/v1/messages/ack", body if results is None else {**body, "results": results})

    async def receive(self, *acks: str, wait: float = 0) -> AgentAnswer:
        """Take messages by a poll that carries acks."""
        return await self.call("POST", "/v1/messages/receive", {"wait": wait, "acks": {"delivery_ids": list(acks)}})

    async def nack(self, delivery_id: str, mode: str, reason: str | None = None) -> AgentAnswer:
        """Say that a message is not processed."""
        body = {"delivery_id": delivery_id, "mode": mode}
        return await self.call("POST", "/v1/messages/nack", body if reason is None else {**body, "reason": reason})

    async def health(self) -> dict[str, Any]:
        """The sidecar's health document."""
        answer = await self.call("GET", "/health")
        assert answer.status == 200, answer.document
        return dict(answer.document)
