"""W10: all outboxes are full when the adapter comes back."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from bench.census import Census, enter_queued
from bench.deployment import SENDERS, SINK, Deployment
from bench.figures import Figures, latency_figures
from bench.load import Answered, connection, consumer, count_sends, prepare, run_lanes
from bench.timing import quiet_collector
from bench.ways import AdapterWay, Request, Unexpected
from bench.workloads.base import Measured, Stage, Workload
from bench.workloads.restart import PROBE, bring_one_through
from multiclaw.supervisor import health_of
from shared.names import ADAPTER, direct_channel

_OUTBOXES: Final = (*SENDERS, SINK)
_BESIDE_PER_SECOND: Final = 20
_BESIDE_SECONDS_MAX: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_BUCKET_SECONDS: Final = 0.1


class Draining(Workload):
    """The adapter is killed, every sidecar's outbox filled, and the adapter started again. Beside the drain a sender
    and a receiver that have no part in it go straight to the adapter."""

    name = "W10"
    about = (
        "kill -9, full outboxes, start: seconds from exec until all are empty; meanwhile one sender beside them, 20 "
        "messages a second, from the send to its receipt (p50, p99); when the first and the last sidecar found the "
        "adapter, and how many of them within 100 ms"
    )
    messages_default = 7_000
    messages_quick = 350
    own_deployment = True
    ways = ("sidecar",)

    async def run(self, stage: Stage) -> Measured:
        """What was taken by an outbox must arrive once, and in the order of its sender."""
        deployment, queued, drained = stage.deployment, Census(), asyncio.Event()
        beside, others = AdapterWay(deployment.config), Census()
        await deployment.kill_adapter()
        keys = await _fill_outboxes(stage)
        await _until_all(deployment, "adapter_reachable", False)
        began_s, start = time.time(), time.perf_counter()
        await deployment.spawn(ADAPTER)
        emptying = asyncio.create_task(_until_empty(deployment, drained))
        await _acknowledge(beside, await bring_one_through(beside))
        figures = {"restart_s": time.perf_counter() - start}
        figures |= await _send_beside(beside, others, drained)
        figures["drained_s"] = await emptying - start
        figures |= _probes([deployment.logged(agent, "adapter-ready")[-1] - began_s for agent in _OUTBOXES])
        async with consumer(stage.way, SINK, queued) as sink:
            await sink.drain()
        faults = enter_queued(queued, keys, SINK)
        return Measured(figures, [*faults, *queued.faults([SINK]), *others.faults([PROBE])])


async def _acknowledge(way: AdapterWay, delivery_id: str) -> None:
    """Acknowledge the probe's message, which the next ones wait for."""
    request = way.ack(PROBE, [delivery_id])
    async with connection(way, PROBE) as lane:
        way.read(request, await lane.request(request.wire))


async def _fill_outboxes(stage: Stage) -> dict[str, list[str]]:
    """The keys of each sender, in the order in which its outbox took them."""
    count = max(1, stage.messages // len(_OUTBOXES))
    lanes = [(agent, prepare(stage.way, direct_channel(SINK), agent, count, 1)) for agent in _OUTBOXES]
    answered = await run_lanes(stage.way, lanes, _BESIDE_SECONDS_MAX)
    keys: dict[str, list[str]] = {agent: [] for agent in _OUTBOXES}
    for one in answered:
        (outcome,) = stage.way.outcomes(one.request, one.response)
        if outcome.code != 202:
            raise Unexpected(f"an outbox of {one.request.agent} answered {outcome.code}")
        keys[one.request.agent] += one.request.keys
    return keys


async def _until_empty(deployment: Deployment, drained: asyncio.Event) -> float:
    """When the last outbox was seen empty (`time.perf_counter`)."""
    try:
        await _until_all(deployment, "outbox_depth", 0)
        return time.perf_counter()
    finally:
        drained.set()


async def _until_all(deployment: Deployment, name: str, value: object) -> None:
    """Wait until the health of every sidecar says so."""
    left = [deployment.config.sidecar_socket(agent) for agent in _OUTBOXES]
    while True:
        left = [socket for socket in left if (await health_of(socket)).body.get(name) != value]
        if not left:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _send_beside(way: AdapterWay, census: Census, drained: asyncio.Event) -> Figures:
    """A message at each beat until all outboxes are empty, whether those before it were answered or not."""
    requests = prepare(way, direct_channel(PROBE), SENDERS[0], int(_BESIDE_SECONDS_MAX * _BESIDE_PER_SECOND), 1)
    loop, sent = asyncio.get_running_loop(), asyncio.Event()
    async with consumer(way, PROBE, census) as taker:
        with quiet_collector():
            following = asyncio.create_task(taker.follow(sent, len(requests)))
            sending, start = list[asyncio.Task[Answered]](), loop.time()
            for number, request in enumerate(requests):
                await asyncio.sleep(start + number / _BESIDE_PER_SECOND - loop.time())
                if drained.is_set():
                    break
                sending.append(loop.create_task(_send(way, request)))
            answered = await asyncio.gather(*sending)
            sent.set()
            await following
    count_sends(census, way, answered)
    left = {one.request.keys[0]: one.left_ns for one in answered}
    return latency_figures((arrival.received_ns - left[arrival.key]) / 1e9 for arrival in taker.arrivals)


async def _send(way: AdapterWay, request: Request) -> Answered:
    left_ns = time.perf_counter_ns()
    async with connection(way, request.agent) as lane:
        return Answered(request, await lane.request(request.wire), left_ns)


def _probes(found_s: Sequence[float]) -> Figures:
    """When sidecars first found the adapter, in seconds from its exec."""
    buckets = Counter(int(found / _BUCKET_SECONDS) for found in found_s)
    return {"first_found_s": min(found_s), "last_found_s": max(found_s), "found_together": max(buckets.values())}
