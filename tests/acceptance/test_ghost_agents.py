"""Agents that open a long-poll at their sidecar and are gone: neither process keeps anything of them (redis#949)."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, ServerProcess, until
from tests.support.invariant import read_store
from tests.support.store_hand import reading

GHOSTS = 100
KEPT = 16
"""Connections that a sidecar keeps to its adapter for later use, at most (`sidecar/wire.py`)."""

POLL = b"GET /v1/messages?wait=60&max=10 HTTP/1.1\r\nHost: sidecar\r\n\r\n"


def descriptors(process: ServerProcess | None) -> int:
    """How many files and sockets a process has open."""
    assert process is not None
    return len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208 - a count is wanted, of what changes


def ghost(door: Path) -> socket.socket:
    """A connection on which a long-poll was asked for."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(door))
    connection.sendall(POLL)
    return connection


@pytest.mark.parametrize("parked", [False, True], ids=["gone at once", "gone while they wait"])
async def test_ghosts_take_nothing_and_leave_nothing(short_folder: Path, parked: bool) -> None:
    """A hundred polls of agents that are gone, then a message: the next poll gets it, honestly counted and free.
    What sidecar and adapter have open in the end is what was open before, and the connections they keep."""
    async with Deployment(short_folder, {"health_poll_seconds": 0.05}) as deployment:
        await deployment.start_adapter()
        await asyncio.gather(*(deployment.start_sidecar(agent) for agent in ("pm", "qa")))
        door = deployment.config.sidecar_socket("qa")
        async with AgentClient(deployment.config.sidecar_socket("pm")) as pm, AgentClient(door) as qa:
            for agent in (pm, qa):
                await until(lambda agent=agent: reached(agent), "the adapter is reached")  # type: ignore[misc]
            assert (await qa.poll()).document["messages"] == []
            base = descriptors(deployment.sidecars["qa"]), descriptors(deployment.adapter)
            ghosts = [ghost(door) for _ in range(GHOSTS)]
            if parked:
                await until(lambda: descriptors(deployment.adapter) >= base[1] + GHOSTS // 2, "they wait upstream")
            for connection in ghosts:
                connection.close()
            await pm.send("@qa", payload={"text": "still here"})
            (message,) = await qa.take(1)
            assert 1 <= message["attempt"] <= GHOSTS + 1
            assert message["redelivered"] is (message["attempt"] > 1)
            await until(lambda: descriptors(deployment.sidecars["qa"]) <= base[0] + KEPT, "the sidecar has closed them")
            await until(lambda: descriptors(deployment.adapter) <= base[1] + KEPT, "the adapter has closed them")
            assert (await qa.ack(message["delivery_id"])).status == 200
    assert read_store(deployment.config.adapter_store).census() == {"acked": 1}
    with reading(deployment.config.adapter_store) as store:
        assert store.execute("SELECT failures FROM deliveries").fetchall() == [(0,)]


async def reached(agent: AgentClient) -> bool:
    """Whether the sidecar reaches the adapter."""
    return bool((await agent.health())["adapter_reachable"])
