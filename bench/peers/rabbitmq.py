"""RabbitMQ: quorum queues, one for each receiver, behind a fanout exchange for each destination."""

import asyncio
import contextlib
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any, Final

import aio_pika

from bench.peers.base import RECEIVERS, TAKE_MAX, WAIT_SECONDS, Peer, Send, Take, Taken, free_port

_STARTS: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's `rabbitmq-server` in the path starts as another user; this is what it runs."""

_QUORUM: Final = {"x-queue-type": "quorum"}
_SPARE: Final = "spare"
"""Nobody uses it: after a kill the queue that was declared last finds no leader, at times for minutes (3.10.8)."""


class RabbitMq(Peer):
    """Over loopback TCP, with a name service of its own. A send returns with the publisher confirm."""

    name = "rabbitmq"
    durability = "quorum queues of one node, persistent messages, publisher confirms, acks"
    hint = "apt install rabbitmq-server"

    def __init__(self) -> None:
        super().__init__()
        self._connections: dict[str, Any] = {}
        self._arrived: dict[str, asyncio.Queue[Any]] = {}
        self._environment: dict[str, str] = {}
        self._url = ""

    def server(self) -> str:
        """See `Peer`."""
        return str(_STARTS) if _STARTS.exists() else "rabbitmq-server"

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        for logger in ("aio_pika", "aiormq"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)  # each attempt before the server listens
        port, self.folder = free_port(), folder
        self._url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self._environment = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench-{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "no-environment"),
            "RABBITMQ_CONFIG_FILE": str(folder / "no-configuration"),
        }
        await self.restart()
        await self.process.until_ready(lambda: self._connection("setup"), folder)
        channel = await (await self._connection("setup")).channel()
        for to, receivers in RECEIVERS.items():
            exchange = await channel.declare_exchange(to, aio_pika.ExchangeType.FANOUT, durable=True)
            for receiver in receivers:
                queue = await channel.declare_queue(f"{to}-{receiver}", durable=True, arguments=_QUORUM)
                await queue.bind(exchange)
        await channel.declare_queue(_SPARE, durable=True, arguments=_QUORUM)

    async def restart(self) -> None:
        """See `Peer`."""
        await self.process.start([self.server()], self.folder, self._environment)

    async def disconnect(self) -> None:
        """See `Peer`."""
        for connection in self._connections.values():
            with contextlib.suppress(Exception):
                await connection.close()
        self._connections.clear()
        self._arrived.clear()

    async def stop(self) -> None:
        """See `Peer`. The name service outlives the server, in a session of its own."""
        await super().stop()
        epmd = shutil.which("epmd")
        if epmd is not None and self._environment:
            ending = await asyncio.create_subprocess_exec(
                *(epmd, "-kill"),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, **self._environment},
            )
            await ending.wait()

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        channel = await (await self._connection(name)).channel(publisher_confirms=True)
        exchange = await channel.get_exchange(to)

        def send(body: bytes) -> Any:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            return exchange.publish(message, routing_key="")

        return send

    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """See `Peer`."""
        arrived = await self._consume(name, f"{of}-{name}")

        async def take() -> Taken:
            try:
                taken = [await asyncio.wait_for(arrived.get(), WAIT_SECONDS)]
            except TimeoutError:
                return Taken([], time.perf_counter_ns())
            received_ns = time.perf_counter_ns()
            while not arrived.empty() and len(taken) < most:
                taken.append(arrived.get_nowait())
            await taken[-1].ack(multiple=True)
            return Taken([message.body for message in taken], received_ns)

        return take

    async def _consume(self, name: str, queue_name: str) -> asyncio.Queue[Any]:
        """What arrives from a queue; a second consumer of it would take a share of its messages."""
        if queue_name not in self._arrived:
            channel = await (await self._connection(name)).channel()
            await channel.set_qos(prefetch_count=TAKE_MAX)
            arrived: asyncio.Queue[Any] = asyncio.Queue()
            queue = await channel.get_queue(queue_name)
            await queue.consume(arrived.put)
            self._arrived[queue_name] = arrived
        return self._arrived[queue_name]

    async def _connection(self, name: str) -> Any:
        if name not in self._connections:
            self._connections[name] = await aio_pika.connect(self._url)
        return self._connections[name]


PEER = RabbitMq()
