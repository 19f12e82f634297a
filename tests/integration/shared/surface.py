"""A small surface with a handler for every way that a request can go, and a client that writes raw bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from shared.api import AckAnswer, NackRequest
from shared.lifecycle import serving
from shared.problems import Problem
from shared.web.routes import Answer, Call, Query, Route, json_answer
from shared.web.service import Service

DEADLINE_SECONDS = 20.0
BODY_BYTES_MAX = 64 * 1024
VAST_BYTES = 8 * 1024 * 1024


class Surface:
    """The handlers, and what they saw."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.undelivered = asyncio.Event()
        self.undelivered_count = 0

    def routes(self) -> list[Route]:
        """The table."""
        answers = {200: AckAnswer}
        number = Query("n", {"type": "integer"}, "a number")
        return [
            Route(
                "POST",
                "/echo",
                "echo",
                "Give back.",
                self.echo,
                answers,
                NackRequest,
                BODY_BYTES_MAX,
                problems=("stale-lease",),
            ),
            Route("POST", "/large", "large", "Take more.", self.echo, answers, NackRequest, 16 * BODY_BYTES_MAX),
            Route("GET", "/items/{item}", "item", "Look.", self.item, answers, query=(number,)),
            Route("GET", "/fault", "fault", "Fail.", self.fault, answers, guarded=False),
            Route("GET", "/refuse", "refuse", "Refuse.", self.refuse, answers, problems=("queue-full",)),
            Route("GET", "/hang", "hang", "Wait for ever.", self.hang, answers, guarded=False),
            Route("GET", "/vast", "vast", "More than a socket holds.", self.vast, answers, guarded=False),
            Route("GET", "/gone", "gone", "The client goes.", self.gone, answers, guarded=False),
        ]

    def guard(self, call: Call) -> None:
        """Everybody may, except the one whose token is bad."""
        if call.request.headers.get("Authorization") == "Bearer bad":
            raise Problem("unauthenticated", "This token is not known.")
        call.agent = "pm"

    def seal(self, call: Call, answer: Answer) -> None:
        """Mark answers of guarded calls."""
        answer.headers["Sealed-For"] = call.agent

    async def echo(self, call: Call) -> Answer:
        """The body again."""
        self.bodies.append(call.body)
        return json_answer(200, call.json())

    async def item(self, call: Call) -> Answer:
        """The path and the query."""
        return json_answer(200, {"item": call.path["item"], "n": call.query_int("n", 0, 0, 10)})

    async def fault(self, _: Call) -> Answer:
        """A bug."""
        raise RuntimeError("secret inner words")

    async def refuse(self, _: Call) -> Answer:
        """A problem of the route's own."""
        raise Problem("queue-full", "Wait.", retry_after=1.6)

    async def hang(self, _: Call) -> Answer:
        """A long-poll."""
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError

    async def vast(self, _: Call) -> Answer:
        """An answer whose writing has to wait for its reader."""
        self.entered.set()
        return Answer(200, b"1" * VAST_BYTES, undelivered=self.on_undelivered)

    async def gone(self, call: Call) -> Answer:
        """An answer made while the connection broke."""
        assert call.request.transport
        call.request.transport.abort()
        return Answer(200, b"{}", undelivered=self.on_undelivered)

    def on_undelivered(self) -> None:
        """Called for an answer that nobody got."""
        self.undelivered_count += 1
        self.undelivered.set()


@contextlib.asynccontextmanager
async def served(surface: Surface, path: Path) -> AsyncIterator[Service]:
    """The surface behind a Unix socket."""
    service = Service("Test surface", surface.routes(), surface.guard, surface.seal)
    async with serving(service.server()) as runner:
        await web.UnixSite(runner, path).start()
        yield service


class Reply:
    """One HTTP response as it came over the wire."""

    def __init__(self, head: bytes) -> None:
        status, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(status.split(" ")[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.body = b""

    @property
    def is_problem(self) -> bool:
        """Whether it is an RFC 9457 problem."""
        return self.headers.get("content-type", "").startswith("application/problem+json")


async def exchange(path: Path, raw: bytes, *, half_close: bool = False) -> list[Reply]:
    """Write bytes and read the answers until the server says or shows that it closes the connection.

    A half-close tells the server that no more will come.
    """
    async with asyncio.timeout(DEADLINE_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            with contextlib.suppress(ConnectionError):  # the server may refuse before it has read all
                writer.write(raw)
                await writer.drain()
                if half_close:
                    writer.write_eof()
            return [reply async for reply in replies(reader)]
        finally:
            writer.transport.abort()


async def replies(reader: asyncio.StreamReader) -> AsyncIterator[Reply]:
    """Response after response; an interim `100 Continue` is one of them."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        closing = False
        while not closing:
            reply = Reply(await reader.readuntil(b"\r\n\r\n"))
            reply.body = await reader.readexactly(int(reply.headers.get("content-length", "0")))
            closing = reply.headers.get("connection") == "close"
            yield reply


def request(method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    """A well-formed request that asks the server to close after it."""
    given: dict[str, Any] = {"Host": "x", "Connection": "close", "Content-Length": len(body)}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body
