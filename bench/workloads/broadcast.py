"""W4: one message to five receivers."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import ClassVar, Final

from bench.census import Census
from bench.deployment import TEAM, TEAM_MEMBERS
from bench.figures import latency_figures
from bench.load import consumer, count_sends, prepare, run_lanes
from bench.timing import Timed
from bench.workloads.base import Measured, Stage, Workload
from bench.workloads.throughput import lanes_of

_IN_FLIGHT: Final = 32


class Broadcast(Workload):
    """One sender keeps 32 broadcasts in flight while five receivers take and acknowledge them in batches."""

    name = "W4"
    about = "one broadcast to 5 receivers, each receives and acks, 32 sends in flight; acked deliveries per second"
    messages_default = 10_000
    messages_quick = 640
    against: ClassVar[Mapping[str, str]] = {"x": "deliveries_per_s"}

    async def run(self, stage: Stage) -> Measured:
        """The clock stops at the last ack; latency is from the send to each receipt."""
        way, sender, census, sent = stage.way, TEAM_MEMBERS[0], Census(), asyncio.Event()
        rounds = max(1, round(stage.messages / _IN_FLIGHT))
        lanes = [
            (agent, prepare(way, TEAM, agent, rounds, batch)) for agent, batch in lanes_of(way, [sender], _IN_FLIGHT)
        ]
        async with contextlib.AsyncExitStack() as stack:
            team = [await stack.enter_async_context(consumer(way, agent, census)) for agent in TEAM_MEMBERS]
            await asyncio.gather(*(one.drain() for one in team))
            with Timed(stage.deployment) as timed:
                start_ns = time.perf_counter_ns()
                following = [asyncio.create_task(one.follow(sent, rounds * _IN_FLIGHT)) for one in team]
                answered = await run_lanes(way, lanes, stage.seconds)
                sent.set()
                await asyncio.gather(*following)
        count_sends(census, way, answered)
        left = {key: one.left_ns for one in answered for key in one.request.keys}
        latencies = [(a.received_ns - left[a.key]) / 1e9 for one in team for a in one.arrivals]
        seconds = (max(one.acked_ns for one in team) - start_ns) / 1e9
        figures = {
            "deliveries_per_s": len(latencies) / seconds,
            **latency_figures(latencies),
            **timed.processors(len(latencies)),
        }
        return Measured(figures, census.faults(TEAM_MEMBERS))
