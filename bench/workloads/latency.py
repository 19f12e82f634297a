"""W3: how long a message travels when there is little to do."""

import asyncio
import time
from typing import Final

from bench.census import Census
from bench.client import Connection
from bench.deployment import SENDERS, SINK
from bench.figures import latency_figures
from bench.load import Answered, connection, consumer, count_sends, prepare
from bench.timing import Timed
from bench.ways import Request
from bench.workloads.base import Measured, Stage, Workload
from shared.names import direct_channel

_INTERVAL_NS: Final = 10_000_000


class PacedLatency(Workload):
    """One sender, one consumer that waits in a long-poll and acknowledges each message before it waits again."""

    name = "W3"
    about = "100 messages per second, from the send to its receipt by a waiting consumer"
    messages_default = 600
    messages_quick = 60

    async def run(self, stage: Stage) -> Measured:
        """Send at the beat; a send that was held up counts from its beat."""
        way, sender, census = stage.way, SENDERS[0], Census()
        requests = prepare(way, direct_channel(SINK), sender, stage.messages, 1)
        sent = asyncio.Event()
        async with connection(way, sender) as lane, consumer(way, SINK, census) as sink:
            await sink.drain()  # the way is open and the receiver known
            with Timed(stage.deployment) as timed:
                following = asyncio.create_task(sink.follow(sent))
                answered = await _send_paced(lane, requests, stage.seconds)
                sent.set()
                await following
        count_sends(census, way, answered)
        left = {one.request.keys[0]: one.left_ns for one in answered}
        latencies = [(arrival.received_ns - left[arrival.key]) / 1e9 for arrival in sink.arrivals]
        return Measured({**latency_figures(latencies), **timed.processors(len(latencies))}, census.faults([SINK]))


async def _send_paced(lane: Connection, requests: list[Request], seconds: float) -> list[Answered]:
    answered: list[Answered] = []
    start_ns = time.perf_counter_ns()
    for number, request in enumerate(requests):
        beat_ns = start_ns + number * _INTERVAL_NS
        if beat_ns - start_ns > seconds * 1e9:
            break
        early_ns = beat_ns - time.perf_counter_ns()
        if early_ns > 0:
            await asyncio.sleep(early_ns / 1e9)
        # A timer that fires late is our own fault; being held up by the answer before is the server's.
        left_ns = time.perf_counter_ns() if early_ns > 0 else beat_ns
        answered.append(Answered(request, await lane.request(request.wire), left_ns))
    return answered
