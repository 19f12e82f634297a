"""HTTP/1.1 to the adapter: a few kept connections on its Unix socket, and nothing that one known server never sends.

aiohttp's client costs 80 to 140 µs a request, which is most of what a lone send costs here; this costs a fifth. It
also can close its half of a connection, which aiohttp's cannot: that is how an abandoned poll learns for certain
whether the adapter had handed anything over.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEAD_BYTES_MAX: Final = 16 * 1024
"""The adapter's heads have about 300 bytes; aiohttp's own limit for one line is half of this."""

_IDLE_MAX: Final = 16
"""Connections kept for reuse: one batch, some polls and acks; more are closed after use."""

_GIVE_UP_SECONDS: Final = 1.0
"""How long the adapter may take to notice that a poll was given up."""


class NotConnectedError(Exception):
    """No connection was made: the request certainly did not arrive."""


class BrokenError(Exception):
    """The connection ended, or what came over it is no answer: the request may have arrived."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Status, headers with lower-case names, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Requests over connections to one Unix socket, one request at a time on each."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._idle: list[_Connection] = []

    async def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        give_up: "asyncio.Future[None] | None" = None,
    ) -> RawAnswer:
        """One request and its answer. Raises `NotConnectedError`, or `BrokenError` once bytes may have left.

        When `give_up` is done first, our half is closed; an answer that was on its way all the same is returned.
        Cancelling closes the connection.
        """
        connection = self._take() or await self._connect()
        try:
            answer = connection.send(_request(method, target, headers, body))
            if give_up is not None:
                await _answered_or_given_up(connection, answer, give_up)
            result = await answer
        except BaseException:
            connection.abort()
            raise
        self._put_back(connection, result)
        return result

    async def close(self) -> None:
        """Close the kept connections."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # a transport is done a turn after it was told

    def _take(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if not connection.lost:
                return connection
        return None

    async def _connect(self) -> "_Connection":
        try:
            _, connection = await asyncio.get_running_loop().create_unix_connection(_Connection, self._path)
        except OSError as error:
            raise NotConnectedError(str(error)) from error
        return connection

    def _put_back(self, connection: "_Connection", answer: RawAnswer) -> None:
        if answer.headers.get("connection", "").lower() == "close" or len(self._idle) >= _IDLE_MAX:
            connection.abort()
        elif not connection.lost:
            self._idle.append(connection)


class _Connection(asyncio.Protocol):
    """One connection; at most one request is open on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._answer: asyncio.Future[RawAnswer] | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of `asyncio.Protocol`."""
        self._transport = transport  # type: ignore[assignment]  # a stream's is always a `Transport`

    def data_received(self, data: bytes) -> None:
        """Of `asyncio.Protocol`."""
        self._received += data
        if self._answer is None or self._answer.done():
            self.abort()  # nothing was asked
            return
        try:
            answer = _parse(self._received)
        except (ValueError, KeyError) as error:
            self._answer.set_exception(BrokenError(f"not an answer of the adapter: {error}"))
            self.abort()
            return
        if answer is not None:
            self._received = bytearray()
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Of `asyncio.Protocol`."""
        self.lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BrokenError(str(exc or "the adapter closed the connection")))

    def send(self, parts: tuple[bytes, bytes]) -> "asyncio.Future[RawAnswer]":
        """Write a request; the future has its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.writelines(parts)
        return self._answer

    def half_close(self) -> None:
        """Say that nothing more comes from here, and go on reading. It is of no use for another request."""
        self.lost = True
        with contextlib.suppress(OSError, RuntimeError):  # it may be closing already
            self._transport.write_eof()

    def abort(self) -> None:
        """Close without a word; also when closed already."""
        self.lost = True
        if self._answer is not None:
            self._answer.cancel()  # whoever waited has gone or has been told
        self._transport.abort()


async def _answered_or_given_up(
    connection: _Connection, answer: "asyncio.Future[RawAnswer]", give_up: "asyncio.Future[None]"
) -> None:
    first: set[asyncio.Future[RawAnswer] | asyncio.Future[None]] = {answer, give_up}
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if answer.done():
        return
    connection.half_close()
    await asyncio.wait({answer}, timeout=_GIVE_UP_SECONDS)
    if not answer.done():
        answer.set_exception(BrokenError("given up"))


def _request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[bytes, bytes]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{method} {target} HTTP/1.1\r\nHost: adapter\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii"), body


def _parse(received: bytearray) -> RawAnswer | None:
    """The answer, or `None` while it is not whole; `ValueError` or `KeyError` for what is none."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if len(received) > _HEAD_BYTES_MAX:
            raise ValueError("a head without an end")
        return None
    status_line, *lines = received[:end].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers["content-length"])
    start = end + 4
    if len(received) < start + length:
        return None
    if len(received) > start + length:
        raise ValueError("bytes after the answer")
    version, status, *_ = status_line.split(" ", 2)
    if version != "HTTP/1.1":
        raise ValueError(f"a status line of {version!r}")
    return RawAnswer(int(status), headers, bytes(received[start:]))
