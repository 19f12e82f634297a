"""W1 and W2: how many sends are acknowledged in a second."""

from collections.abc import Sequence
from typing import ClassVar

from bench.census import Census
from bench.deployment import SENDERS, SINK
from bench.figures import latency_figures
from bench.load import consumer, count_sends, prepare, run_lanes
from bench.timing import Timed
from bench.ways import Way
from bench.workloads.base import Measured, Stage, Workload
from shared.names import direct_channel


class Throughput(Workload):
    """Six senders write to one agent that does not listen yet; a closed loop keeps `in_flight` sends under way."""

    in_flight: ClassVar[int]

    async def run(self, stage: Stage) -> Measured:
        """Send, then let the receiver take all of it and count."""
        way = stage.way
        rounds = max(1, round(stage.messages / self.in_flight))
        lanes = [
            (sender, prepare(way, direct_channel(SINK), sender, rounds, batch))
            for sender, batch in lanes_of(way, SENDERS, self.in_flight)
        ]
        with Timed(stage.deployment) as timed:
            answered = await run_lanes(way, lanes, stage.seconds)
        census = Census()
        count_sends(census, way, answered)
        async with consumer(way, SINK, census) as sink:
            await sink.drain()
        latencies = (one.seconds for one in answered for _ in one.request.keys)
        figures = {
            "messages_per_s": len(census.sent) / timed.seconds,
            **latency_figures(latencies),
            **timed.processors(len(census.sent)),
        }
        return Measured(figures, census.faults([SINK]))


class OneInFlightEach(Throughput):
    """W1."""

    name = "W1"
    about = "6 senders, each one send in flight; acknowledged sends per second"
    messages_default = 20_000
    messages_quick = 900
    in_flight = 6


class InFlight64(Throughput):
    """W2."""

    name = "W2"
    about = "6 senders, 64 sends in flight in total; acknowledged sends per second"
    messages_default = 40_000
    messages_quick = 2_000
    in_flight = 64


def lanes_of(way: Way, senders: Sequence[str], in_flight: int) -> list[tuple[str, int]]:
    """A connection each: its sender and the sends of one request.

    Where sends coalesce, a sender has one connection and its share travels together, for whatever waits while a request
    is under way leaves with the next. Else there is a connection for each send in flight.
    """
    if way.coalesces:
        return shares(senders, in_flight)
    return [(sender, 1) for sender, share in shares(senders, in_flight) for _ in range(share)]


def shares(senders: Sequence[str], in_flight: int) -> list[tuple[str, int]]:
    """How many sends each has under way, so that together they have `in_flight`."""
    each, rest = divmod(in_flight, len(senders))
    return [(sender, each + (position < rest)) for position, sender in enumerate(senders)]
