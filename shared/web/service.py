"""Serving a table of routes: read, guard, handle, seal, write; every failure leaves as a problem.

aiohttp's low-level server costs a seventh less than its application layer, and gives the two hooks that matter here:
what happens when the client is gone before its answer is written, and what malformed HTTP is answered with.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from shared.problems import Problem
from shared.web.openapi import document
from shared.web.routes import BEARER, JSON, Answer, Call, Route, Security, Table, json_answer, problem_answer

_log = logging.getLogger(__name__)

Guard = Callable[[Call], None]
Seal = Callable[[Call, Answer], None]


class Service:
    """One HTTP surface. `guard` lets a call in or raises; `seal` may add headers to any answer of a guarded call."""

    def __init__(
        self, title: str, routes: list[Route], guard: Guard, seal: Seal | None = None, security: Security = BEARER
    ) -> None:
        self._guard = guard
        self._security = security
        self._seal = seal
        self._bytes_max = max(route.body_bytes_max for route in routes)
        self._title = title
        self._routes = routes
        openapi = Route("GET", "/openapi.json", "openapi", "This document.", self._openapi, {200: JSON}, guarded=False)
        self.table = Table([*routes, openapi])

    def server(self) -> web.Server:
        """A server for any number of sites. A client that goes away cancels its handler."""
        return _ProblemServer(self._serve, request_factory=self._request, handler_cancellation=True, access_log=None)

    @functools.cached_property
    def _document(self) -> dict[str, Any]:
        """Made when somebody asks for it: it would be a tenth of a start, and most processes are never asked."""
        return document(self._title, self._routes, self._security)

    async def _openapi(self, _: Call) -> Answer:
        return json_answer(200, self._document)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: Any,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=self._bytes_max)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        response = web.Response(
            body=answer.body, status=answer.status, content_type=answer.content_type, headers=answer.headers
        )
        if answer.undelivered is None:
            return response
        return await _write(request, response, answer.undelivered)

    async def _answer(self, request: web.BaseRequest) -> Answer:
        call: Call | None = None
        try:
            if not request.raw_path.isascii():  # RFC 3986; aiohttp's parsers differ here
                raise Problem("malformed-request", "The target must be ASCII, with the rest percent-encoded.")
            route, path = self.table.find(request.method, request.rel_url.raw_path)
            call = Call(request, route, path, await _read(request, route))
            if route.guarded:
                self._guard(call)
            answer = await route.handler(call)
        except Problem as problem:
            answer = problem_answer(problem)
        except Exception:
            _log.exception("unhandled: %s %s", request.method, request.raw_path)
            answer = problem_answer(Problem("internal", "This is a fault of ours; the log has more."))
        if answer.status == HTTPStatus.UNAUTHORIZED:
            answer.headers["WWW-Authenticate"] = self._security.challenge  # RFC 9110, section 15.5.2
        if self._seal and call is not None and call.agent:
            self._seal(call, answer)
        return answer


async def _read(request: web.BaseRequest, route: Route) -> bytes:
    if (request.content_length or 0) > route.body_bytes_max:
        raise _too_large(route)
    if request.headers.get("Expect", "").lower() == "100-continue":  # RFC 9110, section 10.1.1: the client waits
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # no part of the answer was sent yet
    try:
        # Mostly all of it is here by now; aiohttp's own way would look twice, and ask each time for more.
        body = request.content.read_nowait() if request.content.is_eof() else await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(route) from None
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise Problem("malformed-request", f"The body cannot be read: {error}.") from error
    if len(body) > route.body_bytes_max:
        raise _too_large(route)
    return body


def _too_large(route: Route) -> Problem:
    detail = f"The body may have {route.body_bytes_max} bytes; send large work as a file."
    return Problem("message-too-large", detail, field="")


async def _write(
    request: web.BaseRequest, response: web.Response, undelivered: Callable[[], None]
) -> web.StreamResponse:
    """Write now, so that a client that has gone is noticed here and not after the handler is forgotten."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except (ConnectionError, asyncio.CancelledError):
        undelivered()
        raise
    if request.transport is None or request.transport.is_closing():
        undelivered()
    return response


class _ProblemServer(web.Server):
    """A server whose connections answer malformed HTTP with a problem."""

    def __call__(self) -> RequestHandler:
        return _ProblemHandler(self, loop=asyncio.get_running_loop(), **self._kwargs)


class _ProblemHandler(RequestHandler):
    """aiohttp answers what its parser refuses in plain text; here it is a problem, and the connection is closed."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that never became a call."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("unhandled", exc_info=exc)
            problem = Problem("internal", "This is a fault of ours; the log has more.")
        else:
            problem = Problem("malformed-request", f"{message or exc or 'The request cannot be read'}".strip())
        answer = problem_answer(problem)
        response = web.Response(body=answer.body, status=answer.status, content_type=answer.content_type)
        response.force_close()
        return response
