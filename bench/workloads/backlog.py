"""W5: how fast a receiver that was away catches up."""

from bench.census import Census
from bench.deployment import SENDERS, SINK
from bench.figures import latency_figures
from bench.load import consumer, fill
from bench.timing import Timed
from bench.workloads.base import Measured, Stage, Workload
from shared.names import direct_channel


class Backlog(Workload):
    """One receiver polls for 100 messages, and acknowledges them with the poll for the next."""

    name = "W5"
    about = "consume a backlog in batches of up to 100, each acked with the next poll; latency from poll to ack"
    messages_default = 10_000
    messages_quick = 1_000

    async def run(self, stage: Stage) -> Measured:
        """The backlog is made first, untimed."""
        census = Census()
        await fill(stage.deployment, SENDERS[0], direct_channel(SINK), stage.messages, census)
        async with consumer(stage.way, SINK, census) as sink:
            with Timed(stage.deployment) as timed:
                await sink.drain()
        figures = {
            "messages_per_s": len(sink.arrivals) / timed.seconds,
            **latency_figures(sink.batches),
            **timed.processors(len(sink.arrivals)),
        }
        return Measured(figures, census.faults([SINK]))
