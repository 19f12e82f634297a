"""The two doors: a private Unix socket, and loopback TCP with a token; and what is told without either."""

import json
import os
import stat

import aiohttp
import pytest

import sidecar.guard
from sidecar.store.store import Store, open_store
from tests.integration.sidecar.harness import Client, Deployment, message, until_health


def _base(deployment: Deployment) -> str:
    port = deployment.config.sidecar_port_file("pm").read_text().strip()
    return f"http://127.0.0.1:{port}"


async def _rename(store: Store, old: str, new: str) -> None:
    await store.commit(lambda db: db.execute(f"ALTER TABLE {old} RENAME TO {new}"))


async def test_tcp_needs_the_token(deployment: Deployment) -> None:
    """None, a wrong one, another scheme: 401. The right one: in. Health, metrics and the document need none."""
    async with deployment.adapter(), deployment.sidecar(), aiohttp.ClientSession() as session:
        client = Client(session, _base(deployment))
        token = deployment.config.token_file("pm").read_text().strip()
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
            status, problem = await client.call("POST", "/v1/messages", message(), headers=header)
            assert (status, problem["type"], problem["field"]) == (401, "unauthenticated", "header Authorization")
        right = {"Authorization": f"Bearer {token}"}
        assert (await client.call("POST", "/v1/messages", message(), headers=right))[0] == 201
        for path in ("/health", "/metrics", "/openapi.json"):
            assert (await client.call("GET", path))[0] == 200
        assert stat.S_IMODE(deployment.config.token_file("pm").stat().st_mode) == 0o600


async def test_a_development_deployment_opens_tcp(deploy) -> None:
    """`deployment.development` alone opens loopback TCP without a token."""
    deployment = deploy(development=True)
    async with deployment.adapter(), deployment.sidecar(), aiohttp.ClientSession() as session:
        assert (await Client(session, _base(deployment)).send())[0] == 201


async def test_the_unix_socket_serves_its_own_user_only(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode 0600 in a folder of 0700, and the peer's uid must be ours or root's."""
    async with deployment.sidecar() as client:
        path = deployment.config.sidecar_socket("pm")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert (await client.send())[0] == 202
    monkeypatch.setattr(sidecar.guard, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    async with deployment.sidecar() as client:
        status, problem = await client.send()
        assert (status, problem["type"]) == (401, "unauthenticated")


async def test_a_stale_socket_is_replaced(deployment: Deployment) -> None:
    """What a killed process left does not hinder the next."""
    async with deployment.process() as process:
        process.kill()
        await process.wait()
    assert deployment.config.sidecar_socket("pm").exists()
    async with deployment.sidecar() as client:
        assert (await client.health())["status"] == "degraded"


async def test_health_tells_the_state(deployment: Deployment) -> None:
    """Ok with the adapter, degraded without, 200 either way."""
    async with deployment.sidecar() as client:
        health = await until_health(client, breaker="open")
        assert (health["status"], health["adapter_reachable"], health["outbox_depth"]) == ("degraded", False, 0)
        async with deployment.adapter():
            health = await until_health(client, breaker="closed", adapter_reachable=True)
            assert health["status"] == "ok"


async def test_metrics_count(deployment: Deployment) -> None:
    """Counters move with what happens."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await client.send()
        _, text = await client.call("GET", "/metrics")
        assert 'multiclaw_sidecar_sends_accepted_total{agent="pm"} 1.0' in text
        assert 'multiclaw_sidecar_outbox_depth{agent="pm"} 0.0' in text


async def test_a_failing_store_is_told_and_heals(deployment: Deployment) -> None:
    """While the store cannot be written, sends without an adapter are 503, and so is health; both recover."""
    async with (
        deployment.sidecar() as client,
        open_store(deployment.config.sidecar_state("pm") / "sidecar.db") as other,
    ):
        assert (await client.send())[0] == 202
        for table in ("outbox", "seen"):
            await _rename(other, table, f"{table}_hidden")
        status, problem = await client.send()
        assert (status, problem["type"], problem["retryable"]) == (503, "store-unavailable", True)
        status, problem = await client.call("GET", "/health")
        assert (status, problem["type"]) == (503, "store-unavailable")
        for table in ("outbox", "seen"):
            await _rename(other, f"{table}_hidden", table)
        assert (await client.health())["outbox_depth"] == 1
        assert (await client.send())[0] == 202


async def test_an_emergency_tells_where_it_went(
    deployment: Deployment, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a journal: a line in the sidecar's own file; without that, on standard error; the answer says so."""
    monkeypatch.setattr("shared.journal.send_entry", lambda *_: False)
    async with deployment.sidecar() as client:
        body = {"kind": "adapter-down", "summary": "a\nb", "details": {"n": 1}}
        status, answer = await client.call("POST", "/v1/emergency", body)
        assert (status, answer) == (201, {"recorded": "file"})
        path = deployment.config.sidecar_state("pm") / "emergencies.jsonl"
        line = json.loads(path.read_text())
        assert (line["agent"], line["kind"], line["message"], line["details"]) == (
            "pm",
            "adapter-down",
            "a\nb",
            {"n": 1},
        )
        path.unlink()
        path.mkdir()
        assert (await client.call("POST", "/v1/emergency", body)) == (201, {"recorded": "stderr"})
        assert capfd.readouterr().err.count("<2>multiclaw-emergency") == 1
        for bad in ({"kind": "Bad Kind", "summary": "x"}, {"kind": "x"}, {"kind": "x", "summary": ""}):
            assert (await client.call("POST", "/v1/emergency", bad))[0] == 422


async def test_every_route_is_documented(deployment: Deployment) -> None:
    """The document holds each operation with its refusals by status."""
    async with deployment.sidecar() as client:
        _, document = await client.call("GET", "/openapi.json")
        send = document["paths"]["/v1/messages"]["post"]["responses"]
        assert {"200", "201", "202", "400", "401", "403", "413", "415", "422", "429", "503"} <= set(send)
        kinds = set(json.dumps(send["403"]).split('"')) | set(json.dumps(send["429"]).split('"'))
        assert {"approval-required", "queue-full"} <= kinds
        paths = {"/v1/messages/ack", "/v1/dead-letters/replays/{id}", "/v1/emergency", "/health"}
        assert paths <= set(document["paths"])
