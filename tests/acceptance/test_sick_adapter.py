"""An adapter whose disk fails while nobody writes: its sidecars notice by themselves, and keep what they are given."""

import re
from pathlib import Path

from tests.support.agent_client import AgentClient
from tests.support.deployment import QUICK, Deployment, health, until
from tests.support.disks import full_disk
from tests.support.invariant import read_store

LIMITS = {**QUICK, "store_probe_seconds": 0.1}


async def becomes(agent: AgentClient, **expected: object) -> None:
    """Wait until the sidecar's health says so."""

    async def said() -> bool:
        told = await agent.health()
        return {name: told[name] for name in expected} == expected

    await until(said, f"{expected}")


async def requests(agent: AgentClient) -> float:
    """Requests that the sidecar has made to the adapter, its health probes apart."""
    metrics = str((await agent.call("GET", "/metrics")).document)
    found = re.search(r"^multiclaw_sidecar_link_requests_total\{[^}]*\} (\S+)$", metrics, re.MULTILINE)
    assert found, metrics
    return float(found[1])


async def test_a_sidecar_does_not_drain_into_a_sick_adapter(short_folder: Path) -> None:
    """The breaker opens on readiness alone; what is sent then waits in order, nothing is tried, and all of it arrives
    when the disk has room again."""
    async with Deployment(short_folder, LIMITS) as deployment:
        await deployment.start_adapter()
        await deployment.start_sidecar("pm")
        async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
            await becomes(pm, adapter_reachable=True)
            assert deployment.adapter is not None
            with full_disk(deployment.adapter):
                await becomes(pm, adapter_reachable=False, breaker="open")
                for number in range(5):
                    sent = await pm.send("@qa", payload={"n": number})
                    assert (sent.status, sent.document["outbox_position"]) == (202, number + 1)
                for _ in range(200):  # while the sidecar probes on
                    assert (await health(deployment.config.adapter_socket))[0] == 503
                    assert (await pm.health())["outbox_depth"] == 5
                assert await requests(pm) == 0
            await becomes(pm, adapter_reachable=True, outbox_depth=0)
            assert await requests(pm) > 0
    stored = [message.envelope["payload"]["n"] for message in read_store(deployment.config.adapter_store).messages]
    assert stored == list(range(5))
