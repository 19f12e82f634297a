"""W7: what sends notice while the store forgets."""

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Final

from bench.adapter_store import open_store
from bench.census import Census
from bench.client import Connection, request_bytes
from bench.deployment import SENDERS, SINK, Deployment
from bench.figures import Figures, latency_figures
from bench.load import connection, consumer, count_sends, fill, prepare, run_lanes, send_paced
from bench.timing import Timed
from bench.workloads.base import Measured, Stage, Workload
from bench.workloads.throughput import lanes_of
from shared.database import transaction
from shared.names import direct_channel

_PACED_MAX: Final = 1_000
_IN_FLIGHT: Final = 64
_IN_FLIGHT_MAX: Final = 10_000
_AGE_US: Final = 40 * 86_400 * 1_000_000
_LOOK_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 120.0

_FORGETFUL: Final = {"MULTICLAW_RETENTION__CHECK_SECONDS": "1"}
_MINDFUL: Final = {"MULTICLAW_RETENTION__MESSAGE_DAYS": '"forever"'}


class Pruning(Workload):
    """Old messages are stored. Sends are measured while they stay, then, after a restart, while they go.

    Both times 100 are sent per second, and then as many as go with 64 in flight.
    """

    name = "W7"
    about = (
        "messages of 40 days ago are pruned meanwhile: 100 sends per second (p50, p99), then 64 in flight (msg/s); "
        "still: the same before; seconds until all are gone and their space is given back; disk before and after"
    )
    messages_default = 10_000
    messages_quick = 2_000
    own_deployment = True

    async def run(self, stage: Stage) -> Measured:
        """What is sent meanwhile must all be there at the end, and in order."""
        deployment, census = stage.deployment, Census()
        await fill(deployment, SENDERS[0], direct_channel(SINK), stage.messages, census)
        async with consumer(stage.way, SINK, census) as sink:
            await sink.drain()
        await deployment.restart_adapter(_MINDFUL, _make_old)
        figures = {f"still_{name}": value for name, value in (await _send(stage, census)).items()}
        await deployment.restart_adapter(_FORGETFUL, _nothing)
        figures["disk_mb"] = deployment.store_bytes() / 1e6
        start = time.perf_counter()
        await _until(stage, "messages_pruned", 1)
        figures |= await _send(stage, census)
        await _until(stage, "messages_pruned", stage.messages)
        await _until(stage, "retention_last_pass_seconds", 1)
        figures["pruned_s"] = time.perf_counter() - start
        async with consumer(stage.way, SINK, census) as sink:
            await sink.drain()
        await deployment.restart_adapter(_MINDFUL, _nothing)  # the last one to close a store empties its log
        figures["disk_after_mb"] = deployment.store_bytes() / 1e6
        return Measured(figures, census.faults([SINK]))


async def _send(stage: Stage, census: Census) -> Figures:
    way, sender, to = stage.way, SENDERS[0], direct_channel(SINK)
    paced = prepare(way, to, sender, min(stage.messages, _PACED_MAX), 1)
    rounds = max(1, round(min(stage.messages, _IN_FLIGHT_MAX) / _IN_FLIGHT))
    lanes = [(agent, prepare(way, to, agent, rounds, batch)) for agent, batch in lanes_of(way, SENDERS, _IN_FLIGHT)]
    async with connection(way, sender) as lane:
        with Timed(stage.deployment):
            one_by_one = await send_paced(lane, paced, stage.seconds)
    with Timed(stage.deployment) as timed:
        together = await run_lanes(way, lanes, stage.seconds)
    count_sends(census, way, one_by_one)
    count_sends(census, way, together)
    sent = sum(len(one.request.keys) for one in together)
    return {"messages_per_s": sent / timed.seconds, **latency_figures(one.seconds for one in one_by_one)}


async def _make_old(store: Path) -> None:
    database = await open_store(store)

    def unit(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            connection.execute("UPDATE messages SET accepted_at_us = accepted_at_us - ?", (_AGE_US,))

    try:
        await database.run(unit)
    finally:
        await database.close()


async def _nothing(_: Path) -> None:
    """The store stays as it is."""


async def _until(stage: Stage, name: str, value: float) -> None:
    """Wait until a figure of the adapter has grown to a value."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            if await _figure(stage.deployment, name) >= value:
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _figure(deployment: Deployment, name: str) -> float:
    reader = await Connection.open(deployment.config.adapter_socket)
    try:
        response = await reader.request(request_bytes("GET", "/metrics"))
    finally:
        reader.close()
    lines = response.body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"multiclaw_{name} "))
