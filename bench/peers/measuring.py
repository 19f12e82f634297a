"""W1, W2 and W4 on a peer: the same messages, the same numbers in flight, and the same count afterwards."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from bench.deployment import SENDERS, SINK, TEAM_MEMBERS
from bench.figures import latency_figures
from bench.messages import make_message
from bench.peers.base import Peer, Send, Take
from bench.timing import quiet_collector
from bench.workloads import Measured
from bench.workloads.throughput import shares
from shared.strict_json import encode

_DRAIN_SECONDS: Final = 120.0
_SILENCE_NS: Final = 5_000_000_000
"""What has not come for so long is lost."""

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


@dataclass(slots=True)
class _Count:
    """What was answered, and what each receiver got, by keys."""

    sent: dict[str, int] = field(default_factory=dict)
    """Key, and when it left (`time.perf_counter_ns`)."""
    seconds: list[float] = field(default_factory=list)
    got: dict[str, list[tuple[bytes, int]]] = field(default_factory=dict)

    def faults(self, receivers: Sequence[str]) -> list[str]:
        """Every receiver should have every message once."""
        found = []
        for receiver in receivers:
            keys = [_key(body) for body, _ in self.got.get(receiver, [])]
            if sorted(keys) != sorted(self.sent):
                missing = len(self.sent.keys() - set(keys))
                found.append(f"{receiver} got {len(keys)} of {len(self.sent)} messages, {missing} never")
        return found


async def one_each(peer: Peer, messages: int, seconds: float) -> Measured:
    """W1."""
    return await _sends(peer, messages, seconds, len(SENDERS))


async def together(peer: Peer, messages: int, seconds: float) -> Measured:
    """W2."""
    return await _sends(peer, messages, seconds, 64)


async def broadcast(peer: Peer, messages: int, seconds: float) -> Measured:
    """W4."""
    count, sent = _Count(), asyncio.Event()
    send = await peer.sender(TEAM_MEMBERS[0], "team")
    lanes = [_bodies(TEAM_MEMBERS[0], messages, _BROADCASTS_IN_FLIGHT) for _ in range(_BROADCASTS_IN_FLIGHT)]
    takes = {name: await peer.receiver(name, "team") for name in TEAM_MEMBERS}
    with quiet_collector():
        start_ns, start_cpu = time.perf_counter_ns(), time.process_time()
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(_follow(take, name, count, sent)) for name, take in takes.items()]
            await asyncio.gather(*(_lane(send, bodies, count, seconds) for bodies in lanes))
            sent.set()
        ends_ns = [task.result() for task in following]
        used = time.process_time() - start_cpu
    latencies = [(at - count.sent[_key(body)]) / 1e9 for got in count.got.values() for body, at in got]
    wall = (max(ends_ns) - start_ns) / 1e9
    figures = {"deliveries_per_s": len(latencies) / wall, **latency_figures(latencies), "load_cpu": used / wall}
    return Measured(figures, count.faults(TEAM_MEMBERS))


PEER_WORKLOADS: Final[dict[str, Callable[[Peer, int, float], Awaitable[Measured]]]] = {
    "W1": one_each,
    "W2": together,
    "W4": broadcast,
}


async def measure(peer: Peer, workload: str, messages: int, seconds: float) -> Measured:
    """One of `PEER_WORKLOADS`. What a client raises is a fault of the run; four clients have no common error."""
    try:
        return await PEER_WORKLOADS[workload](peer, messages, seconds)
    except Exception as error:
        return Measured({}, [f"{type(error).__name__}: {error}"])


async def _sends(peer: Peer, messages: int, seconds: float, in_flight: int) -> Measured:
    count = _Count()
    lanes: list[tuple[Send, list[tuple[str, bytes]]]] = []
    for sender, share in shares(SENDERS, in_flight):
        send = await peer.sender(sender, "direct")
        lanes += [(send, _bodies(sender, messages, in_flight)) for _ in range(share)]
    with quiet_collector():
        start, start_cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(_lane(send, bodies, count, seconds) for send, bodies in lanes))
        wall, used = time.perf_counter() - start, time.process_time() - start_cpu
    sent = asyncio.Event()
    sent.set()
    await _follow(await peer.receiver(SINK, "direct"), SINK, count, sent)
    figures = {
        "messages_per_s": len(count.sent) / wall,
        **latency_figures(count.seconds),
        "load_cpu": used / wall,
    }
    return Measured(figures, count.faults([SINK]))


def _bodies(sender: str, messages: int, lanes: int) -> list[tuple[str, bytes]]:
    made = [make_message(sender, "team") for _ in range(max(1, round(messages / lanes)))]
    return [(message.key, encode(message.content)) for message in made]


async def _lane(send: Send, bodies: Sequence[tuple[str, bytes]], count: _Count, seconds: float) -> None:
    end_ns = time.perf_counter_ns() + int(seconds * 1e9)
    for key, body in bodies:
        left_ns = time.perf_counter_ns()
        if left_ns > end_ns:
            return
        count.sent[key] = left_ns  # before it has left: a receiver may have it before the answer is here
        await send(body)
        count.seconds.append((time.perf_counter_ns() - left_ns) / 1e9)


async def _follow(take: Take, name: str, count: _Count, sent: asyncio.Event) -> int:
    """Take until all is there that was sent, or nothing has come for long; when the last batch was acknowledged."""
    got, end_ns = count.got.setdefault(name, []), time.perf_counter_ns()
    async with asyncio.timeout(_DRAIN_SECONDS):
        while not sent.is_set() or len(got) < len(count.sent):
            bodies = await take()
            now_ns = time.perf_counter_ns()
            if bodies:
                end_ns = now_ns
                got += [(body, end_ns) for body in bodies]
            elif sent.is_set() and now_ns - end_ns > _SILENCE_NS:
                break
    return end_ns


def _key(body: bytes) -> str:
    key: str = orjson.loads(body)["idempotency_key"]
    return key
