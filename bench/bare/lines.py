"""Requests to a store or a hop, by the light client that also speaks to ours."""

import asyncio
from pathlib import Path

from bench.client import Connection, Response, request_bytes
from bench.ways import Unexpected


class Lines:
    """Connections to one socket, opened when all others have a request under way, and kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []

    async def ask(self, target: str, body: bytes = b"") -> Response:
        """The answer to a `POST`; raises `OSError` where there is none, and `Unexpected` for one that is no success."""
        connection = self._take() or await self._connect()
        try:
            response = await connection.request(request_bytes("POST", target, body))
        except BaseException:
            self._open.discard(connection)
            connection.close()
            raise
        self._idle.append(connection)
        if response.status != 200:
            raise Unexpected(f"status {response.status}: {response.body[:300].decode('utf-8', 'replace')}")
        return response

    def close(self) -> None:
        """Close all; who waits for an answer gets `ConnectionError`."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self) -> Connection:
        connection = await Connection.open(self._path)
        self._open.add(connection)
        return connection


class Together:
    """Messages to one target: those that wait while a request is under way leave in the next, as from a sidecar."""

    def __init__(self, lines: Lines, target: str) -> None:
        self._lines = lines
        self._target = target
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    def send(self, message: bytes) -> "asyncio.Future[None]":
        """Done when it is stored; raises as `Lines.ask` does."""
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._waiting.append((message, stored))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return stored

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            fault: Exception | None = None
            try:
                await self._lines.ask(self._target, b"[%b]" % b",".join(message for message, _ in group))
            except Exception as error:
                fault = error
            for _, stored in group:
                if stored.done():
                    continue
                if fault is None:
                    stored.set_result(None)
                else:
                    stored.set_exception(fault)
        self._task = None
