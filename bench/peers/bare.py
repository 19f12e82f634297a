"""No other system but a floor: the shape of ours, straight to its store, without what it promises (`bench/bare`)."""

import os
import sys
from pathlib import Path
from typing import ClassVar

import orjson

from bench.bare.lines import Lines, Together
from bench.client import Connection
from bench.peers.base import TAKE_MAX, WAIT_SECONDS, Peer, Send, Server, Take, Taken
from shared.lifecycle import PARENT_VARIABLE


class Bare(Peer):
    """Over its Unix socket, by the light client. As from a sidecar, an agent's sends that wait together leave in one
    request, and a take carries the ack of what came before.
    """

    name: ClassVar[str] = "bare"
    durability: ClassVar[str] = "SQLite with WAL, synchronous FULL, group commit; a batch is acked by the next take"
    hint = "install Multiclaw's own requirements"

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, Lines] = {}
        self._processed: dict[tuple[str, str], int] = {}
        """Of each receiver and destination, the last id that came."""

    def server(self) -> str:
        """See `Peer`."""
        return sys.executable

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        self.folder = folder
        self._processed.clear()
        await self.restart()
        await self.process.until_ready(lambda: knock(self._store), folder)

    async def restart(self) -> None:
        """See `Peer`."""
        await self._run(self.process, "bench.bare.store", self._store, self.folder / "store.db")

    async def disconnect(self) -> None:
        """See `Peer`."""
        for lines in self._lines.values():
            lines.close()
        self._lines.clear()

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        return Together(self._lines_of(name), f"/send/{to}").send

    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """See `Peer`."""
        lines = self._lines_of(name)

        async def take() -> Taken:
            after = self._processed.get((name, of), 0)
            response = await lines.ask(f"/take/{name}/{of}/{after}/{most}/{WAIT_SECONDS}")
            document = orjson.loads(response.body)
            self._processed[name, of] = document["last"]
            return Taken([orjson.dumps(message) for message in document["messages"]], response.received_ns)

        return take

    def _door(self, name: str) -> Path:
        """Where the requests of an agent go."""
        del name
        return self._store

    def _lines_of(self, name: str) -> Lines:
        if name not in self._lines:
            self._lines[name] = Lines(self._door(name))
        return self._lines[name]

    @property
    def _store(self) -> Path:
        return self.folder / "store.sock"

    async def _run(self, process: Server, module: str, socket: Path, behind: Path) -> None:
        """It ends when we do, however that comes about."""
        command = (sys.executable, "-P", "-m", module, str(socket), str(behind))
        await process.start(command, self.folder, {PARENT_VARIABLE: str(os.getpid())})


async def knock(socket: Path) -> None:
    """Connect, and go; raises `OSError` where nobody listens."""
    (await Connection.open(socket)).close()


PEER = Bare()
