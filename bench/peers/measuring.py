"""W1 to W6 on a peer: the same messages, the same numbers in flight, and the same count afterwards."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.deployment import SENDERS, SINK, TEAM_MEMBERS
from bench.figures import latency_figures
from bench.peers.base import Peer
from bench.peers.moving import Count, drain, fill, follow, lanes_of, make_bodies, run_lanes, send_paced
from bench.peers.restarting import restart
from bench.timing import quiet_collector
from bench.workloads import Measured

_BROADCASTS_IN_FLIGHT: Final = 32


@asynccontextmanager
async def running(peer: Peer, parent: Path) -> AsyncIterator[Peer]:
    """The peer on files of its own; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-", dir=parent))
    try:
        await peer.start(folder)
        yield peer
    finally:
        try:
            await peer.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def one_each(peer: Peer, messages: int, seconds: float) -> Measured:
    """W1."""
    return await _sends(peer, messages, seconds, len(SENDERS))


async def together(peer: Peer, messages: int, seconds: float) -> Measured:
    """W2."""
    return await _sends(peer, messages, seconds, 64)


async def paced(peer: Peer, messages: int, seconds: float) -> Measured:
    """W3. The consumer asks for one message at a time: NATS's lets the first wait for others that were asked for."""
    count, sent = Count(), asyncio.Event()
    send, take = await peer.sender(SENDERS[0], "direct"), await peer.receiver(SINK, "direct", 1)
    bodies = make_bodies(SENDERS[0], messages)
    with quiet_collector():
        start, start_cpu = time.perf_counter(), time.process_time()
        following = asyncio.create_task(follow(take, SINK, count, sent))
        await send_paced(send, bodies, count, seconds)
        sent.set()
        await following
        wall, used = time.perf_counter() - start, time.process_time() - start_cpu
    return Measured({**latency_figures(count.latencies()), "load_cpu": used / wall}, count.faults([SINK]))


async def broadcast(peer: Peer, messages: int, seconds: float) -> Measured:
    """W4."""
    count, sent = Count(), asyncio.Event()
    send = await peer.sender(TEAM_MEMBERS[0], "team")
    each = round(messages / _BROADCASTS_IN_FLIGHT)
    lanes = [(send, make_bodies(TEAM_MEMBERS[0], each)) for _ in range(_BROADCASTS_IN_FLIGHT)]
    takes = {name: await peer.receiver(name, "team") for name in TEAM_MEMBERS}
    with quiet_collector():
        start_ns, start_cpu = time.perf_counter_ns(), time.process_time()
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(follow(take, name, count, sent)) for name, take in takes.items()]
            await run_lanes(lanes, count, seconds)
            sent.set()
        ends_ns = [task.result() for task in following]
        used = time.process_time() - start_cpu
    latencies, wall = count.latencies(), (max(ends_ns) - start_ns) / 1e9
    figures = {"deliveries_per_s": len(latencies) / wall, **latency_figures(latencies), "load_cpu": used / wall}
    return Measured(figures, count.faults(TEAM_MEMBERS))


async def backlog(peer: Peer, messages: int, seconds: float) -> Measured:
    """W5. The backlog is stored to its end, untimed."""
    del seconds
    count = Count()
    await fill(peer, messages, count)
    take = await peer.receiver(SINK, "direct")
    with quiet_collector():
        start_ns, start_cpu = time.perf_counter_ns(), time.process_time()
        wall = (await drain(take, SINK, count) - start_ns) / 1e9
        used = time.process_time() - start_cpu
    figures = {
        "messages_per_s": len(count.sent) / wall,
        **latency_figures(count.batches),
        "load_cpu": used / wall,
    }
    return Measured(figures, count.faults([SINK]))


async def restarted(peer: Peer, messages: int, seconds: float) -> Measured:
    """W6. The peer must hold nothing yet."""
    del seconds
    return await restart(peer, messages)


PEER_WORKLOADS: Final[dict[str, Callable[[Peer, int, float], Awaitable[Measured]]]] = {
    "W1": one_each,
    "W2": together,
    "W3": paced,
    "W4": broadcast,
    "W5": backlog,
    "W6": restarted,
}


async def measure(peer: Peer, workload: str, messages: int, seconds: float) -> Measured:
    """One of `PEER_WORKLOADS`. What a client raises is a fault of the run; four clients have no common error."""
    try:
        return await PEER_WORKLOADS[workload](peer, messages, seconds)
    except Exception as error:
        return Measured({}, [f"{type(error).__name__}: {error}"])


async def _sends(peer: Peer, messages: int, seconds: float, in_flight: int) -> Measured:
    count = Count()
    lanes = await lanes_of(peer, messages, in_flight)
    with quiet_collector():
        start, start_cpu = time.perf_counter(), time.process_time()
        await run_lanes(lanes, count, seconds)
        wall, used = time.perf_counter() - start, time.process_time() - start_cpu
    await drain(await peer.receiver(SINK, "direct"), SINK, count)
    figures = {
        "messages_per_s": len(count.sent) / wall,
        **latency_figures(count.seconds),
        "load_cpu": used / wall,
    }
    return Measured(figures, count.faults([SINK]))
