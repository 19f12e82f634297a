"""Agents that die, are slow, or stay away, as real processes behind real sidecars: what comes again, when, and once."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.times import MICROSECONDS, from_iso
from tests.support.agent_client import AgentClient
from tests.support.deployment import QUICK, Deployment, until
from tests.support.doomed_agent import DEADLY
from tests.support.invariant import read_store

LEASE_SECONDS = 1.0
LIMITS = {
    **QUICK,
    "lease_seconds": LEASE_SECONDS,
    "retry_base_seconds": 0.05,
    "retry_cap_seconds": 0.2,
}
SLACK_SECONDS = 5.0
"""What a machine with all its cores at work may take on top of a lease and a backoff."""


@asynccontextmanager
async def pm_and_qa(folder: Path, **limits: Any) -> AsyncIterator[tuple[Deployment, AgentClient, AgentClient]]:
    """An adapter, the sidecars of pm and qa, and a client of each."""
    async with Deployment(folder, LIMITS | limits) as deployment:
        await deployment.start_adapter()
        await asyncio.gather(*(deployment.start_sidecar(agent) for agent in ("pm", "qa")))
        async with (
            AgentClient(deployment.config.sidecar_socket("pm")) as pm,
            AgentClient(deployment.config.sidecar_socket("qa")) as qa,
        ):
            await reaches(pm)
            await reaches(qa)
            yield deployment, pm, qa


async def reaches(agent: AgentClient) -> None:
    """Wait until the sidecar reaches the adapter and nothing is left to be told."""

    async def said() -> bool:
        told = await agent.health()
        return told["adapter_reachable"] and told["breaker"] == "closed" and not told["outbox_depth"]

    await until(said, "the adapter is reached")


async def worked(deployment: Deployment) -> tuple[list[tuple[str, int]], int]:
    """What one life of the doomed agent of qa got, with its attempts, and its exit status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.doomed_agent", "qa", str(deployment.config_path),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode is not None
    return [(text, attempt) for text, attempt in map(json.loads, output.splitlines())], process.returncode


def text(words: object) -> dict[str, object]:
    """A note's payload."""
    return {"text": str(words)}


def states(deployment: Deployment) -> dict[str, int]:
    """Deliveries by state."""
    return {state: count for state, count in read_store(deployment.config.adapter_store).census().items() if count}


@pytest.mark.parametrize("killed", ["agent", "agent and sidecar"])
async def test_what_a_killed_agent_held_comes_again_when_its_lease_ends(short_folder: Path, killed: str) -> None:
    """Not before, and hardly after: the same message, at its place, with an honest count (nats-server#4627)."""
    async with pm_and_qa(short_folder) as (deployment, pm, qa):
        sent = await pm.send("@qa", payload=text(DEADLY))
        got, status = await worked(deployment)
        assert (got, status) == ([(DEADLY, 1)], -9)
        if killed == "agent and sidecar":
            deployment.kill9_sidecar("qa")
            await deployment.start_sidecar("qa")
            await reaches(qa)
        (message,) = await qa.take(1)
        arrived = time.time()
        handed = from_iso(sent.document["timestamp_iso8601"]) / MICROSECONDS
        assert LEASE_SECONDS <= arrived - handed <= LEASE_SECONDS + SLACK_SECONDS
        assert (message["attempt"], message["redelivered"]) == (2, True)
        envelope = message["envelope"]
        assert envelope["idempotency_key"] == sent.document["idempotency_key"]
        assert envelope["channel_sequence_id"] == sent.document["channel_sequence_id"]
        assert envelope["payload"] == text(DEADLY)
        assert (await qa.ack(message["delivery_id"])).status == 200
        assert states(deployment) == {"acked": 1}


async def test_an_agent_that_always_dies_of_one_message_loses_that_one_alone(short_folder: Path) -> None:
    """Ten wait, each for a task of its own, and the first is deadly: exactly three lives end with it, then it is dead,
    and the other nine are done, at their second attempt at the latest (dapr#5511, rabbitmq-website#2207)."""
    async with pm_and_qa(short_folder) as (deployment, pm, _):
        for words in (DEADLY, *(f"work {number}" for number in range(1, 10))):
            assert (await pm.send("@qa", payload=text(words), task_id=words.replace(" ", "-"))).status == 201
        lives = []
        while not lives or lives[-1][1] != 0:
            lives.append(await worked(deployment))
            assert len(lives) <= 4
        assert [got[-1] for got, status in lives if status == -9] == [(DEADLY, attempt) for attempt in (1, 2, 3)]
        done = [(words, attempt) for got, _ in lives for words, attempt in got if words != DEADLY]
        assert sorted(words for words, _ in done) == [f"work {number}" for number in range(1, 10)]
        assert max(attempt for _, attempt in done) <= 2
        assert states(deployment) == {"acked": 9, "dead": 1}


@pytest.mark.parametrize("order", ["after the second", "before the second", "between the lapse and the second"])
async def test_a_slow_agents_late_ack_is_refused(short_folder: Path, order: str) -> None:
    """Its lease has lapsed: whether somebody else has the message by then, has acked it, or nobody has it yet, the
    answer is 409 and changes nothing; the second hand-over is whole, and counts once (bull#308, #850)."""
    waits = 30 if order.startswith("between") else 0.05
    async with pm_and_qa(short_folder, retry_base_seconds=waits, retry_cap_seconds=waits) as (deployment, pm, qa):
        await pm.send("@qa", payload={"text": "whole", "n": [1, 2.5]})
        (first,) = await qa.take(1)
        if order.startswith("between"):
            await until(lambda: states(deployment) == {"queued": 1}, "the lease lapsed")
            late = await qa.ack(first["delivery_id"])
            assert (late.status, late.document["type"]) == (409, "stale-lease")
            assert states(deployment) == {"queued": 1}
            return
        (second,) = await qa.take(1)
        assert second["envelope"] == first["envelope"]
        acks = [second["delivery_id"], first["delivery_id"]]
        answers = [(await qa.ack(each)).status for each in (acks if order.startswith("after") else reversed(acks))]
        assert answers == ([200, 409] if order.startswith("after") else [409, 200])
        assert states(deployment) == {"acked": 1}
        assert (await qa.poll()).document["messages"] == []


async def test_an_agent_that_was_away_gets_what_it_missed_once_and_in_order(short_folder: Path) -> None:
    """It has seen 47 and is cut off during 48 to 60, with its sidecar dead and the adapter killed on the way: it gets
    those thirteen and no gap, and can read them again by range; beyond the end is an error (A2A#1635, #1986)."""
    async with pm_and_qa(short_folder, lease_seconds=30) as (deployment, pm, qa):
        for number in range(1, 48):
            await pm.send("product", payload=text(number))
        before = await qa.take(47)
        assert [message["envelope"]["channel_sequence_id"] for message in before] == list(range(1, 48))
        await qa.ack(*(message["delivery_id"] for message in before))
        deployment.kill9_sidecar("qa")
        for number in range(48, 61):
            if number == 54:
                deployment.kill9_adapter()
            assert (await pm.send("product", payload=text(number))).status == (201 if number < 54 else 202)
        await deployment.start_adapter()
        await reaches(pm)
        await deployment.start_sidecar("qa")
        await reaches(qa)
        answer = (await qa.poll(wait=15, count=100)).document
        missed = list(range(48, 61))
        assert [message["envelope"]["payload"] for message in answer["messages"]] == [text(n) for n in missed]
        assert [message["envelope"]["channel_sequence_id"] for message in answer["messages"]] == missed
        assert [message["attempt"] for message in answer["messages"]] == [1] * 13
        assert answer["gaps"] == []
        read = (await qa.call("GET", "/v1/channels/product/messages?from=48&to=100")).document
        assert [envelope["payload"] for envelope in read["messages"]] == [text(n) for n in missed]
        assert read["last"] == 60
        beyond = await qa.call("GET", "/v1/channels/product/messages?from=61&to=99")
        assert (beyond.status, beyond.document["type"]) == (416, "range-not-retained")
        await qa.ack(*(message["delivery_id"] for message in answer["messages"]))
        assert (await qa.poll()).document == {"messages": [], "gaps": []}
