"""W6: how long nothing moves after the adapter was killed, and what a stored backlog costs."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from bench.census import Census
from bench.client import Response
from bench.deployment import SENDERS, SINK
from bench.load import connection, consumer, fill
from bench.messages import make_message
from bench.ways import Request, Unexpected, Way
from bench.workloads.base import Measured, Stage, Workload
from shared.names import ADAPTER, direct_channel

PROBE: Final = SENDERS[1]
"""Receives the first message after the restart. The backlog is another agent's, so it does not stand before that."""

_RETRY_SECONDS: Final = 0.002
_PATIENCE_SECONDS: Final = 120.0


class Restart(Workload):
    """The adapter is killed with messages stored; a sender and a receiver try until one message has come through."""

    name = "W6"
    about = "kill -9 with messages stored: seconds from exec until one message was sent and received; memory and disk"
    messages_default = 10_000
    messages_quick = 500
    own_deployment = True
    against: ClassVar[Mapping[str, str]] = {"restart_x": "restart_s", "disk_x": "disk_mb"}

    async def run(self, stage: Stage) -> Measured:
        """Nothing stored may be lost: the backlog is consumed and counted at the end."""
        deployment, way, census = stage.deployment, stage.way, Census()
        await fill(deployment, SENDERS[0], direct_channel(SINK), stage.messages, census)
        figures = {"adapter_rss_mb": deployment.rss_mb(ADAPTER), "disk_mb": deployment.store_bytes() / 1e6}
        await deployment.kill_adapter()
        start = time.perf_counter()
        await deployment.spawn(ADAPTER)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await bring_one_through(way)
        figures["restart_s"] = time.perf_counter() - start
        figures["adapter_rss_restarted_mb"] = deployment.rss_mb(ADAPTER)
        async with consumer(way, SINK, census) as sink:
            await sink.drain()
        if deployment.has_sidecars:
            figures["sidecar_rss_mb"] = max(deployment.rss_mb(agent) for agent in (*SENDERS, SINK))
        return Measured(figures, census.faults([SINK]))


async def bring_one_through(way: Way) -> str:
    """Return when a fresh message was accepted, or queued by a sidecar, and has reached its receiver: its hand-over."""
    message = make_message(SENDERS[0], direct_channel(PROBE))
    await _insist(way, SENDERS[0], lambda: way.send([message]))
    while True:
        answer = await _insist(way, PROBE, lambda: way.poll(PROBE, 1, 1.0))
        for taken in answer["messages"]:
            if taken["envelope"]["idempotency_key"] == message.key:
                return str(taken["delivery_id"])


async def _insist(way: Way, agent: str, make: Callable[[], Request]) -> dict[str, Any]:
    """The first successful answer; the same request is repeated, with a new signature, until there is one."""
    while True:
        request = make()
        try:
            return way.read(request, await _ask(way, agent, request))
        except (OSError, Unexpected):  # nobody listens yet, or what listens cannot serve yet
            await asyncio.sleep(_RETRY_SECONDS)


async def _ask(way: Way, agent: str, request: Request) -> Response:
    async with connection(way, agent) as opened:
        return await opened.request(request.wire)
