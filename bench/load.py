"""Moving messages: closed-loop lanes that send, consumers that poll and acknowledge, and a backlog to begin with."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.census import Census
from bench.client import Connection, Response
from bench.deployment import Deployment
from bench.messages import make_message
from bench.ways import AdapterWay, Request, Unexpected, Way
from shared.limits import BATCH_MESSAGES_MAX, POLL_MESSAGES_MAX

_FILL_CHUNK = 5_000  # messages prepared at a time: what is prepared takes memory, and its signatures age

_BEAT_NS = 10_000_000

_FOLLOW_SECONDS = 0.2  # a receiver that hears nothing for so long, once all is sent, has all it will get


@dataclass(frozen=True, slots=True)
class Answered:
    """A request of sends, its answer, and when it left (`time.perf_counter_ns`)."""

    request: Request
    response: Response
    left_ns: int

    @property
    def seconds(self) -> float:
        """From leaving to the last byte of the answer."""
        return (self.response.received_ns - self.left_ns) / 1e9


@dataclass(slots=True)
class Arrival:
    """One message as it reached its receiver."""

    key: str
    received_ns: int


@contextlib.asynccontextmanager
async def connection(way: Way, agent: str) -> AsyncIterator[Connection]:
    """A connection for the requests of an agent."""
    opened = await Connection.open(way.socket(agent))
    try:
        yield opened
    finally:
        opened.close()


async def run_lane(way: Way, agent: str, requests: Sequence[Request], seconds: float) -> list[Answered]:
    """Send one request after the other, the next when the answer is there, for at most `seconds`."""
    answered = []
    async with connection(way, agent) as lane:
        end_ns = time.perf_counter_ns() + int(seconds * 1e9)
        for request in requests:
            left_ns = time.perf_counter_ns()
            if left_ns > end_ns:
                break
            answered.append(Answered(request, await lane.request(request.wire), left_ns))
    return answered


async def run_lanes(way: Way, lanes: Sequence[tuple[str, Sequence[Request]]], seconds: float) -> list[Answered]:
    """All lanes at once: the agent and the requests of each."""
    answered = await asyncio.gather(*(run_lane(way, agent, requests, seconds) for agent, requests in lanes))
    return [one for lane in answered for one in lane]


async def beats(count: int, seconds: float) -> AsyncIterator[int]:
    """A beat, 100 a second, for each of `count` sends, and for at most `seconds`: when the send counts as left
    (`time.perf_counter_ns`). What comes back late, held up by an answer, counts from its beat.
    """
    start_ns = time.perf_counter_ns()
    for number in range(count):
        beat_ns = start_ns + number * _BEAT_NS
        if beat_ns - start_ns > seconds * 1e9:
            return
        early_ns = beat_ns - time.perf_counter_ns()
        if early_ns > 0:
            await asyncio.sleep(early_ns / 1e9)
        # A timer that fires late is our own fault; being held up by the answer before is the server's.
        yield time.perf_counter_ns() if early_ns > 0 else beat_ns


async def send_paced(lane: Connection, requests: Sequence[Request], seconds: float) -> list[Answered]:
    """Send at the beat, the next when the answer is there."""
    left, answered = iter(requests), list[Answered]()
    async for left_ns in beats(len(requests), seconds):
        request = next(left)
        answered.append(Answered(request, await lane.request(request.wire), left_ns))
    return answered


def prepare(way: Way, to: str, sender: str, requests: int, batch: int) -> list[Request]:
    """Requests that carry `batch` fresh messages each."""
    return [way.send([make_message(sender, to) for _ in range(batch)]) for _ in range(requests)]


def count_sends(census: Census, way: Way, answered: Sequence[Answered]) -> None:
    """Enter every send and its outcome."""
    for one in answered:
        outcomes = way.outcomes(one.request, one.response)
        for key, outcome in zip(one.request.keys, outcomes, strict=True):
            census.answered(key, outcome.code, (outcome.channel, outcome.sequence))


@dataclass(slots=True)
class Consumer:
    """One agent that takes messages and acknowledges them."""

    way: Way
    agent: str
    census: Census
    connection: Connection
    arrivals: list[Arrival] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    """Seconds from each poll to the answer to its ack."""
    acked_ns: int = 0
    """When the newest ack was answered."""
    _held: list[str] = field(default_factory=list)
    _asked_ns: int = 0

    async def take(self, wait_seconds: float, count: int = POLL_MESSAGES_MAX) -> int:
        """Poll once and ack what came, in a request of its own; gives how many came."""
        came = await self.receive(wait_seconds, count)
        await self.settle()
        return came

    async def receive(self, wait_seconds: float, count: int = POLL_MESSAGES_MAX) -> int:
        """Poll once, with the acks of what came last, as handlers of the Python client do; gives how many came."""
        held, asked_ns = self._held, time.perf_counter_ns()
        asked = self.way.poll(self.agent, count, wait_seconds, held)
        response = await self.connection.request(asked.wire)
        document = self.way.read(asked, response)
        if document.get("gaps"):
            raise Unexpected(f"{self.agent} was told of gaps: {document['gaps']}")
        if held:
            self._acknowledged(document["acks"].get("answer"), response)
        for message in document["messages"]:
            envelope = message["envelope"]
            key = envelope["idempotency_key"]
            self.census.arrived(self.agent, key, (envelope["to"], envelope["channel_sequence_id"]))
            self.arrivals.append(Arrival(key, response.received_ns))
        self._held, self._asked_ns = [message["delivery_id"] for message in document["messages"]], asked_ns
        return len(self._held)

    async def settle(self) -> None:
        """Ack what is held, if anything is, in a request of its own."""
        if self._held:
            ack = self.way.ack(self.agent, self._held)
            response = await self.connection.request(ack.wire)
            self._acknowledged(self.way.read(ack, response), response)

    async def drain(self) -> None:
        """Take until nothing is left."""
        while await self.receive(0):
            pass

    async def follow(self, sent: asyncio.Event, expected: int) -> None:
        """Take while others send, and after they have until a poll comes back empty.

        Once `expected` have come, acks do not wait for the answer to a poll, which then takes its time.
        """
        while True:
            last = sent.is_set()
            came = await self.receive(_FOLLOW_SECONDS)
            if len(self.arrivals) >= expected:
                await self.settle()
            if not came and last:
                return

    def _acknowledged(self, answer: dict[str, Any] | None, response: Response) -> None:
        if answer is None or len(answer["acked"]) != len(self._held):
            raise Unexpected(f"not every ack of {self.agent} was taken: {response.body[:300]!r}")
        self.batches.append((response.received_ns - self._asked_ns) / 1e9)
        self.acked_ns = response.received_ns
        self._held = []


@contextlib.asynccontextmanager
async def consumer(way: Way, agent: str, census: Census) -> AsyncIterator[Consumer]:
    """A consumer on a connection of its own."""
    async with connection(way, agent) as opened:
        yield Consumer(way, agent, census, opened)


async def fill(deployment: Deployment, sender: str, to: str, count: int, census: Census) -> None:
    """Store `count` messages, straight through the adapter whatever is measured, since this is not."""
    way = AdapterWay(deployment.config)
    left = count
    while left:
        chunk = min(left, _FILL_CHUNK)
        sizes = [min(BATCH_MESSAGES_MAX, chunk - done) for done in range(0, chunk, BATCH_MESSAGES_MAX)]
        requests = [request for size in sizes for request in prepare(way, to, sender, 1, size)]
        count_sends(census, way, await run_lane(way, sender, requests, seconds=600))
        left -= chunk
