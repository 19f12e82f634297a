"""W11: what sends notice of a backup."""

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.census import Census
from bench.deployment import SENDERS, SINK
from bench.figures import latency_figures, prefixed
from bench.load import Answered, beats, connection, consumer, count_sends, fill, prepare, send_paced
from bench.timing import Timed
from bench.ways import AdapterWay
from bench.workloads.base import Measured, Stage, Workload
from shared.database import PARTIAL_SUFFIX
from shared.names import direct_channel

_STILL_MAX: Final = 1_000
_DURING_MAX: Final = 6_000
_LOOK_SECONDS: Final = 0.002


class BackingUp(Workload):
    """Messages are stored, received and acknowledged. Sends are measured while nothing else happens, and then while
    `multiclaw backup` has the adapter copy its store and verify the copy."""

    name = "W11"
    about = (
        "100 sends per second while `multiclaw backup` runs (p50, p99), for a minute at most; still: the same before; "
        "seconds from the first page that is copied to the verified copy"
    )
    messages_default = 10_000
    messages_quick = 2_000
    own_deployment = True
    ways = (AdapterWay.name,)

    async def run(self, stage: Stage) -> Measured:
        """What is sent meanwhile must all be there at the end, and in order."""
        deployment, way, to, census = stage.deployment, stage.way, direct_channel(SINK), Census()
        await fill(deployment, SENDERS[0], to, stage.messages, census)
        async with consumer(way, SINK, census) as sink:
            await sink.drain()
        async with connection(way, SENDERS[0]) as lane:
            still = await send_paced(lane, prepare(way, to, SENDERS[0], min(stage.messages, _STILL_MAX), 1), 60.0)
        figures = prefixed("still", latency_figures(one.seconds for one in still))
        figures["disk_mb"] = deployment.store_bytes() / 1e6
        during, copied = await _send_beside_a_backup(stage)
        figures["backup_s"] = (copied.ended_ns - copied.begun_ns) / 1e9
        figures |= latency_figures(one.seconds for one in during if copied.begun_ns <= one.left_ns < copied.ended_ns)
        count_sends(census, way, [*still, *during])
        async with consumer(way, SINK, census) as sink:
            await sink.drain()
        return Measured(figures, census.faults([SINK]))


class _Span(NamedTuple):
    """A stretch of time (`time.perf_counter_ns`)."""

    begun_ns: int
    ended_ns: int


async def _send_beside_a_backup(stage: Stage) -> tuple[list[Answered], _Span]:
    """All sends from the start of the verb to its end, and when the copy was made between."""
    way, answered = stage.way, list[Answered]()
    requests = iter(prepare(way, direct_channel(SINK), SENDERS[0], _DURING_MAX, 1))
    async with connection(way, SENDERS[0]) as lane, asyncio.TaskGroup() as group:
        copied = group.create_task(_copied(stage.deployment.config.backup_folder))
        backup = group.create_task(stage.deployment.back_up())
        with Timed(stage.deployment):
            async for left_ns in beats(_DURING_MAX, stage.seconds + 60.0):
                if backup.done():
                    break
                request = next(requests)
                answered.append(Answered(request, await lane.request(request.wire), left_ns))
    return answered, copied.result()


async def _copied(folder: Path) -> _Span:
    """When the copy that is being made was seen first, and when it had got its name."""
    begun_ns = await _until(folder, unfinished=True)
    return _Span(begun_ns, await _until(folder, unfinished=False))


async def _until(folder: Path, *, unfinished: bool) -> int:
    while True:
        if _has_unfinished(folder) == unfinished:
            return time.perf_counter_ns()
        await asyncio.sleep(_LOOK_SECONDS)


def _has_unfinished(folder: Path) -> bool:
    return any(folder.glob(f"*{PARTIAL_SUFFIX}"))
