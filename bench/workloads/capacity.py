"""W9: what a message costs in a store that holds many."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from bench.census import Census
from bench.deployment import SENDERS, SINK
from bench.figures import Figures, latency_figures, prefixed
from bench.history import fill_history
from bench.load import Consumer, connection, consumer, count_sends, prepare, run_lane, run_lanes
from bench.timing import Timed
from bench.ways import AdapterWay
from bench.workloads.base import Measured, Stage, Workload
from bench.workloads.restart import PROBE, bring_one_through
from bench.workloads.throughput import lanes_of
from shared.keys import load_keyring
from shared.names import ADAPTER, direct_channel

_SMALLEST: Final = 10_000
_FEWEST: Final = 100
_STEP: Final = 10
_ONE_BY_ONE_MAX: Final = 400
_TOGETHER_MAX: Final = 4_000
_IN_FLIGHT: Final = 64
_PATTERNS: Final = 20
"""Real messages before the copies of the newest: so that each table has rows that the adapter wrote itself."""

_CHECKED_MAX: Final = 10_000
"""Up to here the whole check of the store takes about a second."""

_PATIENCE_SECONDS: Final = 120.0


class Capacity(Workload):
    """Stores that differ in size alone, a tenth of each other, are measured in turn, so that a drift of the machine
    touches all alike. `*_x` is a figure by that of the smallest store in the same round.
    """

    name = "W9"
    about = (
        "so many messages were sent, received and acked before: one sender, one send in flight, then each polled and "
        "acked alone (send, take: p50, p99); 64 in flight, then taken in batches (msg/s, processor time for each); "
        "restart as in W6; x: the ratio to the smallest store in the same round, median"
    )
    messages_default = 100_000
    messages_quick = 200
    own_deployment = True
    kept = True
    ways = (AdapterWay.name,)
    compared: ClassVar[Mapping[str, str]] = {
        "send_x": "send_p50_ms",
        "take_x": "take_p50_ms",
        "cpu_x": "adapter_cpu_us",
    }

    def sizes(self, messages: int) -> list[int]:
        """A tenth again and again, down to 10,000, and at least once, except for so few that nothing could be told."""
        smallest = max(_FEWEST, min(_SMALLEST, messages // _STEP))
        found = [messages]
        while found[-1] // _STEP >= smallest:
            found.append(found[-1] // _STEP)
        return found[::-1]

    def patience_seconds(self, messages: int) -> float:
        """A thousand copies a second are far less than any machine makes."""
        return super().patience_seconds(messages) + messages / 1_000

    async def ready(self, stage: Stage, tell: Callable[[str], None]) -> None:
        """Send a few messages, take them, and copy the last until there are enough; a small store is checked whole."""
        census = Census()
        requests = prepare(stage.way, direct_channel(SINK), SENDERS[0], _PATTERNS, 1)
        count_sends(census, stage.way, await run_lane(stage.way, SENDERS[0], requests, stage.seconds))
        async with consumer(stage.way, SINK, census) as sink:
            await sink.drain()
        key = load_keyring(stage.deployment.config.paths.keys, SENDERS[0]).current

        async def between(store: Path) -> None:
            await fill_history(store, stage.messages, key, tell)
            if stage.messages <= _CHECKED_MAX:
                await stage.deployment.check_store()

        await stage.deployment.restart_adapter({}, between)

    async def run(self, stage: Stage) -> Measured:
        """One round on one of the stores."""
        census, deployment = Census(), stage.deployment
        async with consumer(stage.way, SINK, census) as sink:
            figures = await _one_by_one(stage, sink, census)
            figures |= await _together(stage, sink, census)
        figures |= {"adapter_rss_mb": deployment.rss_mb(ADAPTER), "disk_mb": deployment.store_bytes() / 1e6}
        await deployment.kill_adapter()
        start = time.perf_counter()
        await deployment.spawn(ADAPTER)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            arrived = await bring_one_through(stage.way)
        figures["restart_s"] = time.perf_counter() - start
        ack = stage.way.ack(PROBE, [arrived])
        async with connection(stage.way, PROBE) as opened:
            stage.way.read(ack, await opened.request(ack.wire))
        return Measured(figures, census.faults([SINK]))


async def _one_by_one(stage: Stage, sink: Consumer, census: Census) -> Figures:
    """A send waits for nothing but itself, and so does each poll and each ack."""
    way, count = stage.way, min(stage.messages, _ONE_BY_ONE_MAX)
    requests = prepare(way, direct_channel(SINK), SENDERS[0], count, 1)
    with Timed(stage.deployment):
        answered = await run_lane(way, SENDERS[0], requests, stage.seconds)
        sink.batches.clear()
        while await sink.take(0, 1):
            pass
    count_sends(census, way, answered)
    sends, takes = latency_figures(one.seconds for one in answered), latency_figures(sink.batches)
    return prefixed("send", sends) | prefixed("take", takes)


async def _together(stage: Stage, sink: Consumer, census: Census) -> Figures:
    way = stage.way
    rounds = max(1, round(min(stage.messages, _TOGETHER_MAX) / _IN_FLIGHT))
    lanes = [
        (sender, prepare(way, direct_channel(SINK), sender, rounds, batch))
        for sender, batch in lanes_of(way, SENDERS, _IN_FLIGHT)
    ]
    with Timed(stage.deployment) as timed:
        answered = await run_lanes(way, lanes, stage.seconds)
        await sink.drain()
    count_sends(census, way, answered)
    sent = sum(len(one.request.keys) for one in answered)
    return {"messages_per_s": sent / timed.seconds, **timed.processors(sent)}
