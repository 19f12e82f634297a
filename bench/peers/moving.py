"""Moving messages through a peer, and the count afterwards: as `bench.load` and `bench.census` do for ours."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from bench.deployment import SENDERS
from bench.load import beats
from bench.messages import make_message
from bench.peers.base import Peer, Send, Take
from bench.workloads.throughput import shares
from shared.strict_json import encode

FOREVER: Final = 1e6
"""Seconds, for what must be sent to its end."""

_DRAIN_SECONDS: Final = 120.0
_SILENCE_NS: Final = 5_000_000_000
"""What has not come for so long is lost."""

_FILL_IN_FLIGHT: Final = 64

Bodies = Sequence[tuple[str, bytes]]
"""Key and body of each message."""


@dataclass(slots=True)
class Count:
    """What was answered, and what each receiver got."""

    sent: dict[str, int] = field(default_factory=dict)
    """Key, and when it left (`time.perf_counter_ns`)."""
    seconds: list[float] = field(default_factory=list)
    """From leaving to the answer, for each send."""
    batches: list[float] = field(default_factory=list)
    """From asking to the answer to the ack, for each batch that came."""
    got: dict[str, list[tuple[bytes, int]]] = field(default_factory=dict)
    """Bodies, and when they were received."""

    def faults(self, receivers: Sequence[str]) -> list[str]:
        """Every receiver should have every message once."""
        found = []
        for receiver in receivers:
            keys = [key_of(body) for body, _ in self.got.get(receiver, [])]
            if sorted(keys) != sorted(self.sent):
                missing = len(self.sent.keys() - set(keys))
                found.append(f"{receiver} got {len(keys)} of {len(self.sent)} messages, {missing} never")
        return found

    def latencies(self) -> list[float]:
        """From each send to each of its receipts, in seconds."""
        return [(at - self.sent[key_of(body)]) / 1e9 for got in self.got.values() for body, at in got]


def make_bodies(sender: str, count: int) -> Bodies:
    """Messages of the size of ours."""
    made = [make_message(sender, "team") for _ in range(max(1, count))]
    return [(message.key, encode(message.content)) for message in made]


async def lanes_of(peer: Peer, messages: int, in_flight: int) -> list[tuple[Send, Bodies]]:
    """For each send in flight who sends it, and its share of the messages."""
    lanes = []
    for sender, share in shares(SENDERS, in_flight):
        send = await peer.sender(sender, "direct")
        lanes += [(send, make_bodies(sender, round(messages / in_flight))) for _ in range(share)]
    return lanes


async def run_lanes(lanes: Sequence[tuple[Send, Bodies]], count: Count, seconds: float) -> None:
    """Each sends one message after the other, the next when the answer is there, for at most `seconds`."""
    await asyncio.gather(*(_run_lane(send, bodies, count, seconds) for send, bodies in lanes))


async def fill(peer: Peer, messages: int, count: Count) -> None:
    """Store a backlog for the receiver of `direct`."""
    await run_lanes(await lanes_of(peer, messages, _FILL_IN_FLIGHT), count, FOREVER)


async def send_paced(send: Send, bodies: Bodies, count: Count, seconds: float) -> None:
    """Send at the beat, the next when the answer is there."""
    left = iter(bodies)
    async for left_ns in beats(len(bodies), seconds):
        key, body = next(left)
        count.sent[key] = left_ns
        await send(body)


async def follow(take: Take, name: str, count: Count, sent: asyncio.Event) -> int:
    """Take until all is there that was sent, or nothing has come for long; when the last batch was acknowledged."""
    got, end_ns = count.got.setdefault(name, []), time.perf_counter_ns()
    async with asyncio.timeout(_DRAIN_SECONDS):
        while not sent.is_set() or len(got) < len(count.sent):
            asked_ns = time.perf_counter_ns()
            taken = await take()
            now_ns = time.perf_counter_ns()
            if taken.bodies:
                end_ns = now_ns
                count.batches.append((now_ns - asked_ns) / 1e9)
                got += [(body, taken.received_ns) for body in taken.bodies]
            elif sent.is_set() and now_ns - end_ns > _SILENCE_NS:
                break
    return end_ns


async def drain(take: Take, name: str, count: Count) -> int:
    """Take all that was sent; when the last batch was acknowledged."""
    sent = asyncio.Event()
    sent.set()
    return await follow(take, name, count, sent)


def key_of(body: bytes) -> str:
    """The key of a message."""
    key: str = orjson.loads(body)["idempotency_key"]
    return key


async def _run_lane(send: Send, bodies: Bodies, count: Count, seconds: float) -> None:
    end_ns = time.perf_counter_ns() + int(seconds * 1e9)
    for key, body in bodies:
        left_ns = time.perf_counter_ns()
        if left_ns > end_ns:
            return
        count.sent[key] = left_ns  # before it has left: a receiver may have it before the answer is here
        await send(body)
        count.seconds.append((time.perf_counter_ns() - left_ns) / 1e9)
