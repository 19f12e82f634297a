"""Redis Streams: one stream for each destination, a consumer group for each receiver."""

import time
from pathlib import Path

from redis import asyncio as redis

from bench.peers.base import RECEIVERS, TAKE_MAX, WAIT_SECONDS, Peer, Send, Take, Taken


class Redis(Peer):
    """Over its Unix socket. A connection for each sender, on which what waits goes out together."""

    name = "redis"
    durability = "appendonly yes, appendfsync always, save off"
    hint = "apt install redis-server"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, redis.Redis] = {}

    def server(self) -> str:
        """See `Peer`."""
        return "redis-server"

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        self.folder = folder
        await self.restart()
        await self.process.until_ready(lambda: self._client("setup").ping(), folder)
        for stream, receivers in RECEIVERS.items():
            for receiver in receivers:
                await self._client("setup").xgroup_create(stream, receiver, id="$", mkstream=True)

    async def restart(self) -> None:
        """See `Peer`."""
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        command = [part for name, value in settings.items() for part in (f"--{name}", value)]
        await self.process.start([self.server(), *command], self.folder)

    async def disconnect(self) -> None:
        """See `Peer`."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        client = self._client(name)
        return lambda body: client.xadd(to, {"m": body})

    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """See `Peer`."""
        client = self._client(name)

        async def take() -> Taken:
            found = await client.xreadgroup(name, name, {of: ">"}, count=most, block=int(WAIT_SECONDS * 1000))
            received_ns = time.perf_counter_ns()
            entries = [entry for _, entries in found for entry in entries]
            if entries:
                await client.xack(of, name, *(entry_id for entry_id, _ in entries))
            return Taken([fields[b"m"] for _, fields in entries], received_ns)

        return take

    @property
    def _socket(self) -> Path:
        return self.folder / "redis.sock"

    def _client(self, name: str) -> redis.Redis:
        if name not in self._clients:
            self._clients[name] = redis.Redis(unix_socket_path=str(self._socket))
        return self._clients[name]


PEER = Redis()
