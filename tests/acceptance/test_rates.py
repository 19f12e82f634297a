"""An agent in a loop: slowed down by its own sidecar, without loss, and at nobody else's cost."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.times import MICROSECONDS, from_iso
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment

SENDS, BATCH = 5_000, 100
PER_SECOND, BURST = 1_000, 500
SECONDS_MAX = 60.0


@pytest.fixture
async def deployment(short_folder: Path) -> AsyncIterator[Deployment]:
    """Rates that 5,000 sends meet at once and are through with after five seconds; a queue that takes all of them,
    since how fast a receiver is here depends on what else the machine does."""
    rates = {"normal": (PER_SECOND, BURST)}
    async with Deployment(short_folder, {"queue_max": SENDS}, rates=rates) as deployment:
        await deployment.start_all()
        yield deployment


def client(deployment: Deployment, agent: str) -> AgentClient:
    """An agent's end of its sidecar."""
    return AgentClient(deployment.config.sidecar_socket(agent))


async def flood(deployment: Deployment) -> list[int]:
    """A loop without a pause; the code that each send was answered with."""
    codes: list[int] = []
    async with client(deployment, "engineering") as agent:
        for start in range(0, SENDS, BATCH):
            bodies = [
                {"to": "@qa", "type": "note/1", "payload": {"text": "loop", "n": start + n}} for n in range(BATCH)
            ]
            answer = await agent.call("POST", "/v1/messages/batch", {"messages": bodies})
            codes += [outcome["code"] for outcome in answer.document["outcomes"]]
    return codes


async def receive(deployment: Deployment) -> list[dict[str, Any]]:
    """Every envelope that arrives, in order of arrival."""
    arrived: list[dict[str, Any]] = []
    async with client(deployment, "qa") as agent:
        while len(arrived) < SENDS:
            messages = (await agent.poll(wait=20, count=100)).document["messages"]
            assert messages, f"{len(arrived)} of {SENDS} came"
            arrived += [message["envelope"] for message in messages]
            await agent.ack(*(message["delivery_id"] for message in messages))
    return arrived


async def seconds_of_sends(deployment: Deployment, until: asyncio.Future[Any]) -> list[float]:
    """How long each send of another agent takes, one every 10 ms, as long as the loop runs."""
    taken: list[float] = []
    async with client(deployment, "pm") as agent:
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
    loop = asyncio.ensure_future(flood(deployment))
    async with asyncio.timeout(SECONDS_MAX):
        codes, arrived, beside = await asyncio.gather(
            loop, receive(deployment), seconds_of_sends(deployment, until=loop)
        )
    assert set(codes) == {201}
    assert [envelope["payload"]["n"] for envelope in arrived] == list(range(SENDS))
    times = [from_iso(envelope["timestamp_iso8601"]) for envelope in arrived]
    assert fits(times)
    before, meanwhile = (statistics.quantiles(taken, n=100)[98] for taken in (quiet, beside))
    print(
        f"{SENDS} sends in {(times[-1] - times[0]) / MICROSECONDS:.2f} s at {PER_SECOND}/s after {BURST}; "
        f"another agent's p99: {before * 1e3:.1f} ms without the loop, {meanwhile * 1e3:.1f} ms beside it"
    )
    assert meanwhile < 0.5  # behind the line of the loop it would be seconds
