"""SIGTERM at bad moments: in the middle of a start, of a recovery, of a drain; and a second one during the stop.

A stop ends within the seconds that a service manager grants, cleanly, and loses nothing that was answered with a 2xx
(aiohttp#3638, #1932).
"""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import QUICK, Deployment, ServerProcess, health, until
from tests.support.factories import new_key
from tests.support.invariant import read_store
from tests.support.store_hand import holding

STOP_SECONDS_MAX = 5.0
BUSY_SECONDS = 3.0
"""What a machine with all its cores at work may take on top."""

CLEAN = {0, -signal.SIGTERM}
"""Ended as asked; the second where the signal came before the interpreter had heard of any handler."""


@pytest.fixture
async def deployment(short_folder: Path) -> AsyncIterator[Deployment]:
    """A folder with everything in it, and nothing running."""
    async with Deployment(short_folder, QUICK) as made:
        yield made


async def stopped(process: ServerProcess) -> int:
    """The exit status after SIGTERM; it comes in time."""
    begun = time.monotonic()
    status = await process.stop()
    assert time.monotonic() - begun < STOP_SECONDS_MAX + BUSY_SECONDS, process.log()
    return status


@pytest.mark.parametrize("name", ["adapter", "pm"])
async def test_a_stop_at_any_moment_of_a_start_is_clean(deployment: Deployment, name: str) -> None:
    """Nothing is left that hinders the next start: it takes the same store, the same socket, and serves."""
    config, rng = deployment.config, random.Random(23)
    socket = config.adapter_socket if name == "adapter" else config.sidecar_socket(name)

    async def start(*, wait: bool) -> ServerProcess:
        if name == "adapter":
            return await deployment.start_adapter(wait=wait)
        return await deployment.start_sidecar(name, wait=wait)

    begun = time.monotonic()
    await stopped(await start(wait=True))
    start_seconds = time.monotonic() - begun
    for _ in range(8):
        process = await start(wait=False)
        await asyncio.sleep(rng.random() * start_seconds)
        assert await stopped(process) in CLEAN, process.log()
        assert not socket.exists()
    process = await start(wait=True)
    assert await stopped(process) == 0


async def test_a_stop_during_recovery_is_clean(deployment: Deployment) -> None:
    """The store cannot be opened, since somebody holds it, and is tried again and again: the stop does not wait."""
    assert await stopped(await deployment.start_adapter()) == 0
    with holding(deployment.config.adapter_store):
        process = await deployment.start_adapter(wait=False)

        async def says_why() -> bool:
            return (await health(deployment.config.adapter_socket))[0] == 503

        await until(says_why, "the adapter answers and is not ready")
        assert await stopped(process) == 0
    assert not deployment.config.adapter_socket.exists()
    await deployment.start_adapter()


async def test_a_stop_while_the_store_hangs_ends_in_time(deployment: Deployment) -> None:
    """A send waits for a lock that another process keeps: it is answered, not accepted, and the store that failed
    is not opened once more on the way out."""
    process = await deployment.start_adapter()
    await deployment.start_sidecar("pm")
    async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
        await reaches(pm)
        with holding(deployment.config.adapter_store):
            sending = asyncio.ensure_future(pm.send("@qa", idempotency_key=new_key()))
            await asyncio.wait({sending}, timeout=0.1)
            assert await stopped(process) == 0
        assert (await sending).status == 202
        assert "reopen-failed" not in process.log()
        await deployment.start_adapter()
        await reaches(pm)
    assert read_store(deployment.config.adapter_store).census()["queued"] == 1


async def test_a_second_signal_ends_a_stop_at_once(deployment: Deployment) -> None:
    """The first stop waits for a store that somebody holds. Whoever asks twice means it: status 1, and what had been
    accepted before is there."""
    process = await deployment.start_adapter()
    await deployment.start_sidecar("pm")
    async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
        await reaches(pm)
        first = await pm.send("@qa", payload={"text": "first"})
        with holding(deployment.config.adapter_store):
            sending = asyncio.ensure_future(pm.send("@qa", payload={"text": "second"}))
            await asyncio.wait({sending}, timeout=0.1)
            process.send_signal(signal.SIGTERM)
            await until(lambda: not deployment.config.adapter_socket.exists(), "the stop has begun")
            assert process.returncode is None
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await process.ended() == 1
            assert time.monotonic() - begun < 1
        assert (first.status, (await sending).status) == (201, 202)
        await deployment.start_adapter()
        await reaches(pm)
    texts = [message.envelope["payload"]["text"] for message in read_store(deployment.config.adapter_store).messages]
    assert texts == ["first", "second"]


async def test_a_stop_in_the_middle_of_a_drain_loses_and_doubles_nothing(deployment: Deployment) -> None:
    """Six hundred queued sends, and a sidecar that is told to stop three times while they leave."""
    total = 600
    await deployment.start_sidecar("pm")
    async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
        for first in range(0, total, 100):
            messages = [
                {"to": "@qa", "type": "note/1", "payload": {"n": n}, "idempotency_key": new_key()}
                for n in range(first, first + 100)
            ]
            answer = await pm.call("POST", "/v1/messages/batch", {"messages": messages})
            assert {outcome["code"] for outcome in answer.document["outcomes"]} == {202}
    assert await stopped(deployment.sidecars["pm"]) == 0
    await deployment.start_adapter()
    for _ in range(3):
        process = await deployment.start_sidecar("pm", wait=False)
        before = stored(deployment)
        await until(lambda before=before: stored(deployment) > before, "the drain goes on")  # type: ignore[misc]
        assert await stopped(process) == 0
    await deployment.start_sidecar("pm")
    async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
        await reaches(pm)
    numbers = [message.envelope["payload"]["n"] for message in read_store(deployment.config.adapter_store).messages]
    assert numbers == list(range(total))


def stored(deployment: Deployment) -> int:
    """Messages in the adapter's store."""
    return len(read_store(deployment.config.adapter_store).messages)


async def reaches(agent: AgentClient) -> None:
    """Wait until the sidecar reaches the adapter and its outbox is empty."""

    async def said() -> bool:
        told = await agent.health()
        return told["adapter_reachable"] and told["breaker"] == "closed" and not told["outbox_depth"]

    await until(said, "the adapter is reached")
