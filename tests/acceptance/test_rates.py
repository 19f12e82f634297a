"""An agent in a loop: slowed down by its own sidecar, without loss, and at nobody else's cost."""

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from shared.times import MICROSECONDS, from_iso
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment

SENDS, BATCH = 5_000, 100
PER_SECOND, BURST = 1_000, 500
SECONDS_MAX = 60.0
T = TypeVar("T")


@pytest.fixture
async def deployment(short_folder: Path) -> AsyncIterator[Deployment]:
    """Rates that 5,000 sends meet at once and are through with after five seconds; a queue that takes all of them,
    since how fast a receiver is here depends on what else the machine does."""
    rates = {"normal": (PER_SECOND, BURST)}
    async with Deployment(short_folder, {"queue_max": SENDS}, rates=rates) as deployment:
        await deployment.start_all()
        yield deployment


async def flood(socket: Path) -> list[int]:
    """A loop without a pause; the code that each send was answered with."""
    codes: list[int] = []
    async with AgentClient(socket) as agent:
        for start in range(0, SENDS, BATCH):
            bodies = [
                {"to": "@qa", "type": "note/1", "payload": {"text": "loop", "n": start + n}} for n in range(BATCH)
            ]
            answer = await agent.call("POST", "/v1/messages/batch", {"messages": bodies})
            codes += [outcome["code"] for outcome in answer.document["outcomes"]]
    return codes


async def receive(socket: Path) -> list[tuple[int, int]]:
    """Number and time of receipt of every message that arrives, in order of arrival."""
    arrived: list[tuple[int, int]] = []
    async with AgentClient(socket) as agent:
        while len(arrived) < SENDS:
            messages = (await agent.poll(wait=20, count=100)).document["messages"]
            assert messages, f"{len(arrived)} of {SENDS} came"
            envelopes = [message["envelope"] for message in messages]
            arrived += [(each["payload"]["n"], from_iso(each["timestamp_iso8601"])) for each in envelopes]
            await agent.ack(*(message["delivery_id"] for message in messages))
    return arrived


def carry_out(work: Callable[[Path], Coroutine[Any, Any, T]], socket: Path) -> T:
    """Work in a process of its own: agents do not share one, and what one does must not slow the other's clock."""
    return asyncio.run(work(socket))


async def seconds_of_sends(deployment: Deployment, until: asyncio.Future[Any]) -> list[float]:
    """How long each send of another agent takes, one every 10 ms, as long as the loop runs."""
    taken: list[float] = []
    async with AgentClient(deployment.config.sidecar_socket("pm")) as agent:
        while not until.done() or len(taken) < 100:
            started = time.perf_counter()
            assert (await agent.send("@growth", payload={"text": "on time"})).status == 201
            taken.append(time.perf_counter() - started)
            await asyncio.sleep(0.01)
    return taken


def fits(times_us: list[int]) -> bool:
    """Whether in no window more came than burst + rate x time; a hundredth is the clock's, which is another one."""
    lowest = float("inf")
    for count, at_us in enumerate(times_us):
        earned = (at_us - times_us[0]) * PER_SECOND / MICROSECONDS * 1.01
        lowest = min(lowest, count - earned)
        if count + 1 - earned - lowest > BURST + 1:
            return False
    return True


async def test_an_agent_in_a_loop_is_slowed_down_without_loss(deployment: Deployment) -> None:
    """5,000 sends: each arrives once, in order, no faster than allowed; another agent's p99 does not notice."""
    quiet = await seconds_of_sends(deployment, until=asyncio.ensure_future(asyncio.sleep(0)))
    sockets, running = deployment.config.sidecar_socket, asyncio.get_running_loop()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as agents:
        receiver = running.run_in_executor(agents, carry_out, receive, sockets("qa"))
        loop = running.run_in_executor(agents, carry_out, flood, sockets("engineering"))
        async with asyncio.timeout(SECONDS_MAX):
            beside = await seconds_of_sends(deployment, until=loop)
            codes, arrived = await asyncio.gather(loop, receiver)
    assert set(codes) == {201}
    assert [number for number, _ in arrived] == list(range(SENDS))
    times = [at_us for _, at_us in arrived]
    assert fits(times)
    before, meanwhile = (statistics.quantiles(taken, n=100)[98] for taken in (quiet, beside))
    print(
        f"{SENDS} sends in {(times[-1] - times[0]) / MICROSECONDS:.2f} s at {PER_SECOND}/s after {BURST}; "
        f"another agent's p99: {before * 1e3:.1f} ms without the loop, {meanwhile * 1e3:.1f} ms beside it"
    )
    assert meanwhile < 0.5  # behind the line of the loop it would be seconds
