"""Processes on a file system that the kernel takes away from under them, or that is full: nothing that was told is
lost, and nothing is told that is not so."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import QUICK, Deployment, health, until
from tests.support.factories import new_key, noise
from tests.support.loop_disk import LoopDisk, why_not

REASON = why_not()

pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.timeout(180),
]


@pytest.fixture
def disk(short_folder: Path) -> Iterator[LoopDisk]:
    """The disk of all state; sockets and configuration are on another."""
    with LoopDisk(short_folder / "image", short_folder / "state") as made:
        yield made


@pytest.fixture
async def deployment(disk: LoopDisk, short_folder: Path) -> AsyncIterator[Deployment]:
    """What runs on it; killed before the disk goes."""
    async with Deployment(short_folder, {**QUICK, "store_probe_seconds": 0.25}) as made:
        yield made


async def _start(deployment: Deployment) -> None:
    await deployment.start_adapter()
    for agent in ("pm", "qa"):
        await deployment.start_sidecar(agent)
    await deployment.connected("pm", "qa")


async def _sent(agent: AgentClient, number: int, *statuses: int, size: int = 10) -> None:
    answer = await agent.send("@qa", payload={"n": number, "text": noise(0, size)}, idempotency_key=new_key())
    assert answer.status in statuses, answer.document
    if answer.status >= 500:
        assert answer.document["type"] in {"store-unavailable", "adapter-unreachable"}
        assert answer.document["retryable"] is True
        assert answer.document["detail"]


async def _says(deployment: Deployment, *statuses: int, agent: str | None = None) -> None:
    """Wait until the adapter, or this agent's sidecar, says one of these."""
    socket = deployment.config.sidecar_socket(agent) if agent else deployment.config.adapter_socket

    async def asked() -> bool:
        return (await health(socket))[0] in statuses

    await until(asked, f"{socket.name} says one of {statuses}")


async def _received(deployment: Deployment, count: int) -> list[int]:
    """What the agent qa has got, each acknowledged."""
    numbers: list[int] = []
    async with AgentClient(deployment.config.sidecar_socket("qa")) as qa:
        while len(numbers) < count:
            taken = await qa.take(min(count - len(numbers), 50))
            numbers += [each["envelope"]["payload"]["n"] for each in taken]
            await qa.ack(*(each["delivery_id"] for each in taken))
        assert (await qa.poll()).document["messages"] == []
    return numbers


def _agent(deployment: Deployment, name: str) -> contextlib.AbstractAsyncContextManager[AgentClient]:
    return AgentClient(deployment.config.sidecar_socket(name))


BREAKS = {"the kernel finds an error": LoopDisk.find_an_error, "the device is gone": LoopDisk.shut_down}


@pytest.mark.parametrize("cause", BREAKS)
async def test_a_file_system_that_breaks_under_all(deployment: Deployment, disk: LoopDisk, cause: str) -> None:
    """Every send is refused with a reason, readiness is gone, nobody dies, and all end when they are told to. Such a
    file system comes back only after everybody has let it go: then everything that was told is there, once."""
    await _start(deployment)
    async with _agent(deployment, "pm") as pm, _agent(deployment, "qa") as qa:
        for number in range(6):
            await _sent(pm, number, 201)
        first = await qa.take(2)
        acked = await qa.ack(*(each["delivery_id"] for each in first))
        assert len(acked.document["acked"]) == 2
        BREAKS[cause](disk)
        for number in range(100, 103):
            await _sent(pm, number, 503)
        await _says(deployment, 503)
        _, document = await health(deployment.config.adapter_socket)
        assert "readonly" in document["reason"] or "rror" in document["reason"]
        await _says(deployment, 503, agent="pm")
        assert (await qa.poll()).status == 503
    assert {process.returncode for process in (*deployment.sidecars.values(), deployment.adapter)} == {None}
    assert set((await deployment.stop_all()).values()) == {0}
    disk.mend()
    await _start(deployment)
    async with _agent(deployment, "pm") as pm:
        await _sent(pm, 6, 201)
    assert await _received(deployment, 5) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("cause", BREAKS)
async def test_a_file_system_that_breaks_under_an_outbox(deployment: Deployment, disk: LoopDisk, cause: str) -> None:
    """What was queued with 202 is there after it, in order; what is sent meanwhile is refused."""
    await deployment.start_sidecar("pm")
    async with _agent(deployment, "pm") as pm:
        for number in range(4):
            await _sent(pm, number, 202)
        BREAKS[cause](disk)
        for number in range(100, 103):
            await _sent(pm, number, 503)
        await _says(deployment, 503, agent="pm")
    assert await deployment.sidecars["pm"].stop() == 0
    disk.mend()
    await _start(deployment)
    assert await _received(deployment, 4) == [0, 1, 2, 3]


async def test_an_adapter_that_is_started_on_a_read_only_disk_stays_up(deployment: Deployment, disk: LoopDisk) -> None:
    """It says why it is not ready, and ends well. It holds the lock: a second one is refused."""
    await deployment.start_adapter()
    await deployment.adapter.stop()
    disk.find_an_error()
    first = await deployment.start_adapter(wait=False)
    await _says(deployment, 503)
    assert "readonly" in (await health(deployment.config.adapter_socket))[1]["reason"]
    second = await deployment.start_adapter(wait=False)
    assert await second.ended() == 78
    assert "in use by process" in second.log()
    assert await first.stop() == 0


async def test_a_full_disk(deployment: Deployment, disk: LoopDisk) -> None:
    """Sends are refused, nothing is lost, both start on it, and when there is room again all work on by themselves."""
    await _start(deployment)
    accepted: list[int] = []
    text = noise(0, 200_000)
    async with _agent(deployment, "pm") as pm:
        for number in range(4):
            await _sent(pm, number, 201)
        disk.fill()
        for number in range(4, 400):
            sent = {"payload": {"n": number, "text": text}, "idempotency_key": new_key()}
            answer = await pm.send("@qa", **sent)
            accepted.append(number)
            if answer.status not in (201, 202):
                break
        assert answer.status == 503, answer.document
        await _says(deployment, 503)
        disk.make_room()
        await _says(deployment, 200)
        await _says(deployment, 200, agent="pm")
        assert (await pm.send("@qa", **sent)).status in (200, 201, 202)  # of the first try nobody knows what became
        await _sent(pm, 1_000, 201, 202)
        disk.fill()
    for process in (*deployment.sidecars.values(), deployment.adapter):
        process.kill9()
    await deployment.start_adapter(wait=False)
    await _says(deployment, 200, 503)
    for agent in ("pm", "qa"):
        disk.fill()  # with what a start has given up
        await deployment.start_sidecar(agent)
    async with _agent(deployment, "pm") as pm:
        disk.make_room()
        await _says(deployment, 200)
        await deployment.connected("pm", "qa")
        await _sent(pm, 1_001, 201, 202)
    assert await _received(deployment, 6 + len(accepted)) == [*range(4), *accepted, 1_000, 1_001]
