"""W8: what sends notice while a replay job runs."""

import asyncio
import contextlib
import time
from typing import Any, Final

from bench.census import Census
from bench.deployment import ORCHESTRATOR, SENDERS, SINK
from bench.figures import Figures, latency_figures
from bench.load import connection, consumer, count_sends, fill, prepare, run_lane
from bench.timing import Timed
from bench.ways import AdapterWay, Request
from bench.workloads.base import Measured, Stage, Workload
from shared.limits import POLL_MESSAGES_MAX
from shared.link import NACK_PATH, POLL_PATH, ROOT
from shared.names import direct_channel
from shared.replays import ONE_REPLAY_PATH, RATE_MAX, REPLAYS_PATH

_RECEIVER: Final = SENDERS[1]
"""Of what is sent meanwhile."""

_SENDS_MAX: Final = 4_000
_SECONDS_PER_REPLAY: Final = 0.8 / RATE_MAX
"""Sends are measured for no longer than a job takes that is not held up."""

_LOOK_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 120.0


class Replaying(Workload):
    """All messages of a backlog are refused. Sends are measured before, and while a job replays all that died."""

    name = "W8"
    about = (
        "dead letters are replayed by a job without a rate meanwhile: one sender, one send in flight (p50, p99); "
        "still: the same before; seconds until all are queued again"
    )
    messages_default = 10_000
    messages_quick = 500
    own_deployment = True

    async def run(self, stage: Stage) -> Measured:
        """What was refused and what is sent meanwhile must all be there at the end, and in order."""
        dead, census, link = Census(), Census(), AdapterWay(stage.deployment.config)
        await fill(stage.deployment, SENDERS[0], direct_channel(SINK), stage.messages, dead)
        await _refuse_all(link, stage.messages)
        first, second = _prepare(stage), _prepare(stage)
        figures = {f"still_{name}": value for name, value in (await _send(stage, first, census)).items()}
        start = time.perf_counter()
        job = await _ask(link, ORCHESTRATOR, "POST", ROOT + REPLAYS_PATH, {})
        figures |= await _send(stage, second, census)
        await _until_done(link, job["id"])
        figures["replayed_s"] = time.perf_counter() - start
        faults = []
        for agent, count in ((SINK, dead), (_RECEIVER, census)):
            async with consumer(stage.way, agent, count) as sink:
                await sink.drain()
            faults += count.faults([agent])
        return Measured(figures, faults)


async def _refuse_all(link: AdapterWay, count: int) -> None:
    """Many connections, since a nack is a request of its own: so those that wait share a commit."""
    refused = 0
    async with contextlib.AsyncExitStack() as stack:
        lanes = [await stack.enter_async_context(connection(link, SINK)) for _ in range(POLL_MESSAGES_MAX)]
        while refused < count:
            poll = link.request(SINK, "POST", POLL_PATH, {"wait": 1, "max": POLL_MESSAGES_MAX})
            handed = link.read(poll, await lanes[0].request(poll.wire))["messages"]
            bodies = [{"delivery_id": message["delivery_id"], "mode": "refuse"} for message in handed]
            nacks = [link.request(SINK, "POST", NACK_PATH, body) for body in bodies]
            answers = await asyncio.gather(*(lane.request(one.wire) for lane, one in zip(lanes, nacks, strict=False)))
            for nack, answer in zip(nacks, answers, strict=True):
                link.read(nack, answer)
            refused += len(handed)


def _prepare(stage: Stage) -> list[Request]:
    return prepare(stage.way, direct_channel(_RECEIVER), SENDERS[0], min(stage.messages, _SENDS_MAX), 1)


async def _send(stage: Stage, requests: list[Request], census: Census) -> Figures:
    seconds = min(stage.seconds, stage.messages * _SECONDS_PER_REPLAY)
    with Timed(stage.deployment):
        answered = await run_lane(stage.way, SENDERS[0], requests, seconds)
    count_sends(census, stage.way, answered)
    return latency_figures(one.seconds for one in answered)


async def _until_done(link: AdapterWay, job_id: str) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            job = await _ask(link, ORCHESTRATOR, "GET", ROOT + ONE_REPLAY_PATH.format(id=job_id))
            if job["state"] != "running":
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _ask(link: AdapterWay, agent: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    request = link.request(agent, method, path, body)
    async with connection(link, agent) as opened:
        return link.read(request, await opened.request(request.wire))
