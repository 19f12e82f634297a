"""W3: how long a message travels when there is little to do."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from bench.census import Census
from bench.deployment import SENDERS, SINK
from bench.figures import latency_figures
from bench.load import connection, consumer, count_sends, prepare, send_paced
from bench.timing import Timed
from bench.workloads.base import Measured, Stage, Workload
from shared.names import direct_channel


class PacedLatency(Workload):
    """One sender, one consumer that waits in a long-poll and acknowledges each message with the poll for the next."""

    name = "W3"
    about = "100 messages per second, from the send to its receipt by a waiting consumer"
    messages_default = 600
    messages_quick = 60
    against: ClassVar[Mapping[str, str]] = {"p50_x": "p50_ms", "p99_x": "p99_ms"}

    async def run(self, stage: Stage) -> Measured:
        """Send at the beat; a send that was held up counts from its beat."""
        way, sender, census = stage.way, SENDERS[0], Census()
        requests = prepare(way, direct_channel(SINK), sender, stage.messages, 1)
        sent = asyncio.Event()
        async with connection(way, sender) as lane, consumer(way, SINK, census) as sink:
            await sink.drain()  # the way is open and the receiver known
            with Timed(stage.deployment) as timed:
                following = asyncio.create_task(sink.follow(sent, len(requests)))
                answered = await send_paced(lane, requests, stage.seconds)
                sent.set()
                await following
        count_sends(census, way, answered)
        left = {one.request.keys[0]: one.left_ns for one in answered}
        latencies = [(arrival.received_ns - left[arrival.key]) / 1e9 for arrival in sink.arrivals]
        return Measured({**latency_figures(latencies), **timed.processors(len(latencies))}, census.faults([SINK]))
