"""What a process costs while it has nothing to do: there are as many sidecars as agents."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, health, until

SIDECAR_BYTES_MAX = 38_000_000
"""35.1 MB on CPython 3.11. All but 6 of it are the packages that a sidecar is built on, imported and idle."""

WAKE_UPS_MAX = 24
"""While a poll waits for four seconds. Some ten begin and end it; a look at something ten times a second adds forty."""

FOREIGN = {
    "sidecar": ("adapter", "multiclaw", "bench", "jsonschema_rs", "prometheus_client", "difflib"),
    "adapter": ("sidecar", "multiclaw", "bench", "prometheus_client", "difflib"),
}
"""What must not be loaded by a start: the parts of others, and what few processes ever need."""

LOADED = """
import sys
from importlib import import_module
import_module(sys.argv.pop(1) + ".__main__").main()
print(*sorted(sys.modules))
from aiohttp.connector import _SSL_CONTEXT_VERIFIED
print(_SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"])
"""
"""Run a process to its end, and tell which modules it had loaded, and how many certificates."""


def anonymous_bytes(pid: int) -> int:
    """Memory that the process shares with no other: pages of libraries are there once for all of them, so resident
    memory would count most of them again for each process (proc(5), `RssAnon`)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


async def test_an_idle_sidecar_stays_small(short_folder: Path) -> None:
    """With a store, both doors and a link in use, and nothing sent yet."""
    (short_folder / "redis.py").write_text("raise ImportError")  # pybreaker loads it where the bench's extra is there
    async with Deployment(short_folder / "d") as deployment:
        await deployment.start_adapter()
        environment = {"PYTHONPATH": f"{short_folder}:{Path(__file__).parents[2]}"}
        sidecar = await deployment.start_sidecar("pm", environment)
        await deployment.connected("pm")
        assert anonymous_bytes(sidecar.pid) < SIDECAR_BYTES_MAX


def wake_ups(pid: int) -> int:
    """How often any thread of the process has gone to sleep (proc(5), `voluntary_ctxt_switches`)."""
    statuses = [path.read_text(encoding="ascii") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(count) for count in re.findall(r"^voluntary_\w+:\s+(\d+)$", "".join(statuses), re.MULTILINE))


async def test_who_waits_sleeps(short_folder: Path) -> None:
    """While a poll is parked, and between two health probes, neither sidecar nor adapter looks at anything."""
    async with Deployment(short_folder, {"health_poll_seconds": 3600}) as deployment:
        adapter = await deployment.start_adapter()
        sidecar = await deployment.start_sidecar("pm")
        await deployment.connected("pm")
        async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
            await pm.poll(wait=0)  # the first of everything
            before = wake_ups(adapter.pid), wake_ups(sidecar.pid)
            assert (await pm.poll(wait=4)).document["messages"] == []
            after = wake_ups(adapter.pid), wake_ups(sidecar.pid)
        assert after[0] - before[0] < WAKE_UPS_MAX
        assert after[1] - before[1] < WAKE_UPS_MAX


async def loaded(name: str, deployment: Deployment) -> tuple[set[str], int]:
    """The modules that a process has loaded when it has served and ended, and the certificates that it has read."""
    arguments = [name, "--config", str(deployment.config_path), *(("--agent", "pm") if name == "sidecar" else ())]
    socket = deployment.config.sidecar_socket("pm") if name == "sidecar" else deployment.config.adapter_socket
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOADED, *arguments, stdout=asyncio.subprocess.PIPE
    )

    async def serves() -> bool:
        assert process.returncode is None
        return (await health(socket))[0] == 200

    try:
        await until(serves, f"{name} serves")
        process.terminate()
        words, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    modules, certificates = words.decode().splitlines()
    return set(modules.split()), int(certificates)


@pytest.mark.parametrize("name", ["adapter", "sidecar"])
async def test_a_start_loads_what_is_needed(short_folder: Path, name: str) -> None:
    """No part of another process, nothing that few ever need, and no certificates: nobody here speaks TLS by itself."""
    async with Deployment(short_folder) as deployment:
        modules, certificates = await loaded(name, deployment)
        assert f"{name}.app" in modules
        assert [module for module in FOREIGN[name] if module in modules] == []
        assert certificates == 0
