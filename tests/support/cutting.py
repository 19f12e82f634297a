"""Requests that are cut short in the middle of their handling, at every point.

A client that vanishes has its handler cancelled wherever that is just then. Here it is cancelled the same way, in the
real server, at the first point, the second, and so on, until a request ends before its point is reached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

T = TypeVar("T")

Moment = Literal["waiting", "answered", "turn"]
"""At which points. The first two are where the handler awaits something: as it begins to wait, or when what it awaits
has come and it has not been told yet. The third is each turn of the loop, in which what it has started goes on."""

MOMENTS: tuple[Moment, ...] = ("waiting", "answered", "turn")

SECONDS_MAX = 20.0
"""Of one request and what follows it. Leases last longer, so one that is kept by nobody is noticed."""

_EACH_TURN_UNTIL = 40
"""Of later turns fewer and fewer are tried: a poll may wait for thousands, in which nothing happens."""


class Cut:
    """One request to be cut at its `at`-th point, from 1, or not at all if it has fewer."""

    def __init__(self, operation: tuple[str, str], at: int, moment: Moment) -> None:
        self.operation = operation
        self.at = at
        self.is_reached = False
        self.ended = asyncio.Event()
        self._moment = moment
        self._suspensions = 0

    def begun(self, vanish: Callable[[], object]) -> None:
        """The handling begins."""
        if self._moment == "turn":
            asyncio.get_running_loop().call_soon(self._turn, vanish, self.at)

    def suspended(self, awaited: "asyncio.Future[Any] | None", vanish: Callable[[], object]) -> None:
        """The handling awaits something now; a bare turn of the loop is no future."""
        self._suspensions += 1
        if self._moment == "turn" or self._suspensions != self.at:
            return
        self.is_reached = True
        if self._moment == "answered" and awaited is not None:
            awaited.add_done_callback(lambda _: vanish())  # before the task hears of it
        else:
            asyncio.get_running_loop().call_soon(vanish)

    def _turn(self, vanish: Callable[[], object], left: int) -> None:
        if self.ended.is_set():
            return
        if left > 1:
            asyncio.get_running_loop().call_soon(self._turn, vanish, left - 1)
        else:
            self.is_reached = True
            vanish()


class Cutter:
    """Stands around the handling of each request in this process, from its first byte to the last of its answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._armed: Cut | None = None
        handle, cutter = RequestHandler._handle_request, self

        async def handle_or_cut(self: RequestHandler, request: web.BaseRequest, *rest: Any) -> Any:
            cut = cutter._armed
            if cut is None or (request.method, request.rel_url.raw_path) != cut.operation:
                return await handle(self, request, *rest)
            cutter._armed, vanish = None, partial(_vanish, request)
            cut.begun(vanish)
            try:
                return await _Stepped(handle(self, request, *rest), cut, vanish)
            finally:
                cut.ended.set()

        monkeypatch.setattr(RequestHandler, "_handle_request", handle_or_cut)

    def cuts(self, method: str, path: str, moment: Moment) -> Iterator["Ask"]:
        """For each point of the handling of such a request, a way to ask that is cut there; then, once, one that
        is not cut."""
        at = 0
        while True:
            at += 1 if at < _EACH_TURN_UNTIL else at // 8
            cut = Cut((method, path), at, moment)
            yield Ask(self, cut)
            assert cut.ended.is_set(), f"there was no {method} {path}"
            if not cut.is_reached:
                return

    def arm(self, cut: Cut) -> None:
        """Cut the next such request."""
        self._armed = cut


class Ask:
    """Awaits a client's request that is to be cut, and the end of its handling."""

    def __init__(self, cutter: Cutter, cut: Cut) -> None:
        self._cutter = cutter
        self._cut = cut

    async def __call__(self, request: Awaitable[T]) -> T | None:
        """The answer; `None` where none came."""
        self._cutter.arm(self._cut)
        try:
            return await request
        except aiohttp.ClientError:
            assert self._cut.is_reached
            return None
        finally:
            await self._cut.ended.wait()


class _Stepped:
    """Awaits a coroutine, and tells of each of its suspensions."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], cut: Cut, vanish: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._cut = cut
        self._vanish = vanish

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        resume: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                return end.value
            self._cut.suspended(awaited, self._vanish)
            try:
                given = yield awaited
            except BaseException as error:  # the cancellation among others, which is the handler's to deal with
                resume = partial(steps.throw, error)
            else:
                resume = partial(steps.send, given)


def _vanish(request: web.BaseRequest) -> None:
    """As `RequestHandler.connection_lost` of aiohttp cancels it, and nothing can be written any more."""
    if request.transport is not None:
        request.transport.abort()
    request.task.cancel()
