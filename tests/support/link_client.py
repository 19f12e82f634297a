"""A sidecar's half of the link, by hand: signs each request, verifies each answer, keeps no state."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

from shared import link
from shared.keys import Keyring
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_request, verify_answer
from shared.strict_json import decode, encode
from tests.support.factories import envelope, signed

JSON_HEADERS = {"Content-Type": "application/json"}


def wall_us() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """Status, document and headers of an answer whose signature was right (or that needs none)."""

    status: int
    document: Any
    headers: dict[str, str]
    sealed: bool


class LinkClient:
    """Speaks for one agent. Used with `async with`."""

    def __init__(self, socket: Path, keyring: Keyring, now_us: Callable[[], int] = wall_us) -> None:
        self.agent = keyring.agent
        self.keyring = keyring
        self.now_us = now_us
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.UnixConnector(str(self._socket), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=90))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, target: str, body: Any = None) -> LinkAnswer:
        """One signed request with a JSON body; see `raw`."""
        return await self.raw(method, target, b"" if body is None else encode(body))

    async def raw(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> LinkAnswer:
        """One request of these very bytes. `headers` replace ours, the signature included.

        An answer to a signed request must be signed itself, except where no route was found for it.
        """
        assert self._session is not None, "use `async with`"
        signature = sign_request(method, target, body, self.keyring, self.now_us())
        sent = {**JSON_HEADERS, REQUEST_HEADER: signature, **(headers or {})}
        url = URL(f"http://link{target}", encoded=True)  # sent as it was signed: else `%40` would leave as `@`
        async with self._session.request(method, url, data=body or None, headers=sent) as response:
            content = await response.read()
            stated = response.headers.get(ANSWER_HEADER)
            if stated is not None:
                key = self.keyring.current
                assert verify_answer(key, sent[REQUEST_HEADER], response.status, content, stated), "a forged answer"
            document = decode(content) if "json" in response.content_type else content.decode()
            return LinkAnswer(response.status, document, dict(response.headers), stated is not None)

    def request_bytes(self, method: str, target: str, body: Any = None) -> bytes:
        """A signed request as it stands on the wire, for tests that hold the socket themselves."""
        content = b"" if body is None else encode(body)
        head = {
            "Host": "link",
            **JSON_HEADERS,
            REQUEST_HEADER: sign_request(method, target, content, self.keyring, self.now_us()),
            "Content-Length": str(len(content)),
        }
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        return "\r\n".join(lines).encode() + content

    def envelope(self, to: str = "product", **fields: Any) -> dict[str, Any]:
        """A signed envelope of this agent."""
        return signed(envelope(self.agent, to, **fields), self.keyring, self.now_us())

    async def submit(self, *envelopes: dict[str, Any]) -> list[dict[str, Any]]:
        """Outcomes of signed envelopes sent in one request."""
        answer = await self.call("POST", link.MESSAGES_PATH, {"envelopes": list(envelopes)})
        assert answer.status == 200, answer.document
        assert answer.sealed
        return list(answer.document["outcomes"])

    async def send(self, to: str = "product", **fields: Any) -> dict[str, Any]:
        """The outcome of one send: `code`, and `answer` or `problem`."""
        return (await self.submit(self.envelope(to, **fields)))[0]

    async def poll(self, wait: float = 0, count: int = 10) -> list[dict[str, Any]]:
        """Hand-overs."""
        answer = await self.call("POST", link.POLL_PATH, {"wait": wait, "max": count})
        assert answer.status == 200, answer.document
        assert answer.sealed
        return list(answer.document["messages"])

    async def ack(self, *delivery_ids: str, results: dict[str, Any] | None = None) -> LinkAnswer:
        """The whole answer to an ack."""
        body: dict[str, Any] = {"delivery_ids": list(delivery_ids)}
        return await self.call("POST", link.ACK_PATH, body if results is None else {**body, "results": results})

    async def nack(self, delivery_id: str, mode: str = "fail", reason: str | None = None) -> LinkAnswer:
        """The whole answer to a nack."""
        body = {"delivery_id": delivery_id, "mode": mode}
        return await self.call("POST", link.NACK_PATH, body if reason is None else {**body, "reason": reason})

    async def extend(self, *delivery_ids: str, seconds: float = 60) -> LinkAnswer:
        """The whole answer to an extension."""
        return await self.call("POST", link.EXTEND_PATH, {"delivery_ids": list(delivery_ids), "seconds": seconds})

    async def read(self, channel: str, first: int, final: int | None = None) -> LinkAnswer:
        """The whole answer to a range."""
        target = link.CHANNEL_PATH.format(channel=channel) + f"?from={first}"
        return await self.call("GET", target if final is None else f"{target}&to={final}")

    async def health(self) -> LinkAnswer:
        """The adapter's readiness."""
        return await self.call("GET", "/health")
