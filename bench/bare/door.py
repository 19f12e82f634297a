"""How both processes serve: as ours do, with aiohttp's low-level server on a Unix socket."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from shared.lifecycle import serving
from shared.sockets import unix_door

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


@contextlib.asynccontextmanager
async def open_door(socket: Path, handler: Handler) -> AsyncIterator[None]:
    """Requests at `socket` are answered while the block runs."""
    async with serving(web.Server(handler, access_log=None)) as runner:
        with unix_door(socket) as listener:
            await web.SockSite(runner, listener, backlog=1024).start()
            yield


def json_response(body: bytes) -> web.Response:
    """An answer of JSON."""
    return web.Response(body=body, content_type="application/json")
