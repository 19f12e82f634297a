"""HTTP/1.1 on a kept-alive Unix socket, for load: about 20 µs per request.

It does only what our two servers need: one request at a time, answers with `Content-Length`. aiohttp's client costs
four times as much, which would measure the client.
"""

import asyncio
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, and when its last byte was read (`time.perf_counter_ns`)."""

    status: int
    head: bytes
    body: bytes
    received_ns: int

    def header(self, name: str) -> str | None:
        """The value of a header, or `None`."""
        found = re.search(rb"\r\n" + re.escape(name.encode()) + rb": *([^\r]*)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")


class Connection(asyncio.Protocol):
    """One connection. A second request before the answer to the first is a fault of the caller."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self._waiting: asyncio.Future[Response] | None = None
        self._buffer = bytearray()
        self._need = 0  # bytes of head and body together, once the head is known

    @classmethod
    async def open(cls, path: Path) -> "Connection":
        """Connect; raises `OSError` where nobody listens."""
        _, connection = await asyncio.get_running_loop().create_unix_connection(cls, str(path))
        return connection

    @property
    def closing(self) -> bool:
        """Whether it has ended, or is about to: no request will be answered on it."""
        return self._transport.is_closing()

    def request(self, wire: bytes) -> "asyncio.Future[Response]":
        """Send the bytes of one request; the future has its answer, or `ConnectionError` when there will be none."""
        if self._waiting is not None:
            raise RuntimeError("a request is in flight on this connection")
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():
            self._fail()
        else:
            self._transport.write(wire)
        return waiting

    def close(self) -> None:
        """Let it go."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._buffer += data
        if not self._need:
            self._need = self._measure()
        if self._need and len(self._buffer) >= self._need:
            self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._fail()

    def _measure(self) -> int:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return 0
        length = _LENGTH.search(self._buffer, 0, end)
        if length is None:
            self._transport.abort()
            return 0
        return end + len(_HEAD_END) + int(length[1])

    def _settle(self) -> None:
        now = time.perf_counter_ns()
        content, self._buffer, self._need = bytes(self._buffer), bytearray(), 0
        head, _, body = content.partition(_HEAD_END)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(Response(int(head[9:12]), head, body, now))

    def _fail(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(ConnectionError("the connection ended before the answer"))


def request_bytes(method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a request; a body is JSON."""
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: unix",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
