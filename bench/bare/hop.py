"""`python -m bench.bare.hop SOCKET UPSTREAM`: stands before a store for one agent, as its sidecar would.

The routes are those of the store, but a send brings one message. JSON is read and written anew, as by all who look into
it; sends that wait together leave together.
"""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
from aiohttp import web

from bench.bare.door import json_response, open_door
from bench.bare.lines import Lines, Together
from bench.ways import Unexpected
from shared.lifecycle import run


class Hop:
    """Passes requests on; 503 while the store is away."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._sends: dict[str, Together] = {}

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        path = request.rel_url.raw_path
        try:
            if not path.startswith("/send/"):
                return json_response(_anew((await self._lines.ask(path)).body))
            if path not in self._sends:
                self._sends[path] = Together(self._lines, path)
            await self._sends[path].send(_anew(await request.read()))
            return json_response(b"{}")
        except (OSError, Unexpected) as fault:
            return web.Response(status=503, text=str(fault))


def _anew(document: bytes) -> bytes:
    return orjson.dumps(orjson.loads(document))


@contextlib.asynccontextmanager
async def _hop(socket: Path, upstream: Path) -> AsyncIterator[None]:
    lines = Lines(upstream)
    try:
        async with open_door(socket, Hop(lines)):
            yield
    finally:
        lines.close()


def main() -> int:
    """Serve until told to stop; the exit status."""
    socket, upstream = map(Path, sys.argv[1:])
    return run("hop", lambda: _hop(socket, upstream))


if __name__ == "__main__":
    sys.exit(main())
