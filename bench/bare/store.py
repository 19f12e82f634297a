"""`python -m bench.bare.store SOCKET FILE`: messages in a table, over HTTP.

`POST /send/DESTINATION` appends a JSON array of messages; it is answered when they are synced.
`POST /take/RECEIVER/DESTINATION/AFTER/MAX/SECONDS` says that the receiver has processed what came up to the id `AFTER`,
and gives up to `MAX` messages of those that follow, waiting so long for the first: `{"last": ID, "messages": [...]}`.
Who does not know where it was says 0, and gets again what it has not said to be processed.
"""

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import orjson
from aiohttp import web

from bench.bare.door import json_response, open_door
from bench.bare.log import Log, connect
from shared.database import Database
from shared.lifecycle import run


class Store:
    """The two routes."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._arrived: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Of a destination, set by the next send to it."""

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        match request.rel_url.raw_path.split("/"):
            case ["", "send", to]:
                await self.send(to, await request.read())
                return json_response(b"{}")
            case ["", "take", receiver, of, after, most, seconds]:
                return json_response(await self.take(receiver, of, int(after), int(most), float(seconds)))
            case _:
                return web.Response(status=404)

    async def send(self, to: str, messages: bytes) -> None:
        """Append a JSON array, and wake those who wait for it."""
        await self._log.append(to, [orjson.dumps(message) for message in orjson.loads(messages)])
        if to in self._arrived:
            self._arrived.pop(to).set()

    async def take(self, receiver: str, of: str, after: int, most: int, seconds: float) -> bytes:
        """What follows, as JSON."""
        arrived = self._arrived[of]  # before the look: what it does not see will set it
        rows = await self._log.read(receiver, of, after, most)
        if not rows and seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await arrived.wait()
            rows = await self._log.read(receiver, of, after, most)
        last = rows[-1][0] if rows else after
        return b'{"last":%d,"messages":[%b]}' % (last, b",".join(body for _, body in rows))


@contextlib.asynccontextmanager
async def _store(socket: Path, file: Path) -> AsyncIterator[None]:
    database = Database(partial(connect, file), iter_chunk_size=64)
    async with database, open_door(socket, Store(Log(database))):
        yield


def main() -> int:
    """Serve until told to stop; the exit status."""
    socket, file = map(Path, sys.argv[1:])
    return run("store", lambda: _store(socket, file))


if __name__ == "__main__":
    sys.exit(main())
