"""A sidecar in its own process: killed, stopped, misconfigured."""

import asyncio
import signal
import sys
import time

import pytest

from tests.integration.sidecar.harness import Deployment, key, message, until, until_health


async def _messages(deployment: Deployment, first: int, count: int, **fields: str) -> list[int]:
    """Send numbered messages through a batch call; the codes they got."""
    messages = [message(payload=first + n, idempotency_key=key(first + n), **fields) for n in range(count)]
    async with deployment.client() as client:
        _, answer = await client.call("POST", "/v1/messages/batch", {"messages": messages})
    return [outcome["code"] for outcome in answer["outcomes"]]


async def test_a_full_outbox_survives_kill_and_drains_in_order(deployment: Deployment) -> None:
    """kill -9 with 1,000 queued sends, the last fifty critical, and again in the middle of the drain: none is lost,
    doubled or out of order."""
    async with deployment.process() as process:
        for first in range(0, 950, 95):
            assert await _messages(deployment, first, 95) == [202] * 95
        assert await _messages(deployment, 1_000, 1) == [503]
        assert await _messages(deployment, 950, 50, type="task.cancel/1") == [202] * 50
        assert await _messages(deployment, 1_000, 1, type="task.cancel/1") == [503]
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with deployment.adapter():
        async with deployment.process() as process:
            await until(lambda: len(deployment.fake.batches) >= 3)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with deployment.process(), deployment.client() as client:
            await until_health(client, outbox_depth=0)
            assert deployment.fake.order("product") == list(range(1_000))
            assert await _messages(deployment, 0, 1) == [200]


async def test_term_ends_sends_in_flight_as_queued(deploy) -> None:
    """SIGTERM while the adapter hangs: the open send is answered 202, the process ends within 3 s with 0, and the
    next one drains what was queued."""
    deployment = deploy(link_timeout_seconds=30)
    async with deployment.adapter():
        async with deployment.process() as process, deployment.client() as client:
            await until_health(client, adapter_reachable=True)
            deployment.fake.gate.clear()
            send = asyncio.ensure_future(client.send(payload="late"))
            poll = asyncio.ensure_future(client.poll(wait=60))
            await until(lambda: deployment.fake.batches and deployment.fake.polls_open)
            before = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert (await send)[0] == 202
            assert (await poll)[0] == 200
            assert await process.wait() == 0
            assert time.monotonic() - before < 3
            assert not deployment.config.sidecar_socket("pm").exists()
            assert not deployment.config.sidecar_port_file("pm").exists()
        deployment.fake.gate.set()
        async with deployment.process(), deployment.client() as client:
            await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == ["late"]


async def _run(deployment: Deployment, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sidecar", *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await asyncio.wait_for(process.communicate(), 20)
    return process.returncode or 0, stderr.decode()


async def test_an_unknown_agent_is_a_configuration_fault(deployment: Deployment) -> None:
    """Exit 78, with the nearest name."""
    code, text = await _run(deployment, "--config", str(deployment.path), "--agent", "pmm")
    assert code == 78
    assert "Did you mean 'pm'?" in text


async def test_without_a_key_it_refuses_to_start(deployment: Deployment) -> None:
    """Exit 78, naming the command that makes keys."""
    (deployment.config.paths.keys / "pm.key").unlink()
    code, text = await _run(deployment, "--config", str(deployment.path), "--agent", "pm")
    assert code == 78
    assert "multiclaw init" in text


async def test_it_needs_no_other_agents_key(deployment: Deployment) -> None:
    """A sidecar reads its own key and no other."""
    (deployment.config.paths.keys / "qa.key").unlink()
    async with deployment.process("pm"), deployment.client("pm") as client:
        assert (await client.health())["agent"] == "pm"


async def test_a_second_sidecar_of_one_agent_exits(deployment: Deployment) -> None:
    """One process per store: the second names the first, which serves on."""
    async with deployment.process() as process, deployment.client() as client:
        code, text = await _run(deployment, "--config", str(deployment.path), "--agent", "pm")
        assert code == 78
        assert str(process.pid) in text
        assert (await client.health())["pid"] == process.pid


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_what_is_no_socket_is_never_deleted(deployment: Deployment, kind: str) -> None:
    """Something else at the socket's path: exit 78, and it is left as it is."""
    path = deployment.config.sidecar_socket("pm")
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious") if kind == "file" else path.mkdir()
    code, text = await _run(deployment, "--config", str(deployment.path), "--agent", "pm")
    assert code == 78
    assert str(path) in text
    assert path.exists()
