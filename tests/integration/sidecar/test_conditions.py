"""What a sidecar tells the journal by itself; here its file, since there is no journal."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.problems import Problem
from tests.integration.sidecar.harness import Client, Deployment, key, until, until_health
from tests.support.store_hand import looking_at, reading


@pytest.fixture(autouse=True)
def _no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.journal.send_entry", lambda *_: False)


def told(deployment: Deployment) -> list[tuple[str, str, str]]:
    """Event, kind and stage of each entry, in their order."""
    return [(one["event"], one["kind"], one["details"]["stage"]) for one in entries(deployment)]


def entries(deployment: Deployment) -> list[dict[str, Any]]:
    """The entries so far."""
    path = deployment.config.sidecar_state("pm") / "emergencies.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def lasting(client: Client) -> set[str]:
    """What `/health` says lasts."""
    return {one["condition"] for one in (await client.health())["conditions"]}


async def until_told(deployment: Deployment, *expected: tuple[str, str, str]) -> None:
    """Wait until these are among the entries."""
    await until(lambda: set(expected) <= set(told(deployment)))


async def test_an_outbox_that_fills_is_told_and_cleared_once(deploy: Callable[..., Deployment]) -> None:
    """Nearly full, full, and over when it has drained; in `/health` and `/metrics` meanwhile."""
    deployment = deploy(outbox_max=10)
    async with deployment.sidecar() as client:
        for number in range(8):
            await client.send(payload=number)
        assert told(deployment) == []
        await client.send(payload=8)
        await until_told(deployment, ("outbox-nearly-full", "outbox-nearly-full", "entered"))
        await client.send(payload=9)
        await until_told(deployment, ("outbox-full", "outbox-full", "entered"))
        health = await client.health()
        assert health["status"] == "degraded"
        assert [(one["condition"], one["severity"]) for one in health["conditions"]] == [
            ("outbox-full", "critical"), ("outbox-nearly-full", "critical")
        ]  # fmt: skip
        assert "10 sends wait, of 10" in health["conditions"][0]["detail"]
        figures = (await client.call("GET", "/metrics"))[1]
        assert 'multiclaw_sidecar_condition{agent="pm",condition="outbox-full"} 1.0' in figures
        async with deployment.adapter():
            await until_health(client, outbox_depth=0, conditions=[], status="ok")
    assert sorted(told(deployment)[2:]) == [
        ("cleared", "outbox-full", "cleared"), ("cleared", "outbox-nearly-full", "cleared")
    ]  # fmt: skip
    assert [one["priority"] for one in entries(deployment)] == [2, 2, 5, 5]


async def test_an_adapter_that_stays_away_is_told_once_over_restarts(deploy: Callable[..., Deployment]) -> None:
    """A sidecar that is started again while it lasts tells nothing; the end is told with the whole time."""
    deployment = deploy(breaker_alarm_seconds=0.2)
    async with deployment.sidecar():
        await until_told(deployment, ("breaker-open-too-long", "breaker-open-too-long", "entered"))
    for _ in range(2):
        async with deployment.sidecar() as client:
            assert await lasting(client) == {"breaker-open-too-long"}
            await until_health(client, breaker="open")
            assert await lasting(client) == {"breaker-open-too-long"}
    assert len(entries(deployment)) == 1
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, conditions=[], breaker="closed")
    assert told(deployment)[1:] == [("cleared", "breaker-open-too-long", "cleared")]
    with looking_at(deployment.config.sidecar_store("pm")) as connection:
        assert connection.execute("SELECT count(*) FROM conditions").fetchone() == (0,)


async def test_an_adapter_that_only_says_that_it_is_well_is_told(deploy: Callable[..., Deployment]) -> None:
    """Its health is well while sends time out, so the breaker opens and closes again and again: one outage, told once;
    it is over when a send is answered, and not before."""
    deployment = deploy(breaker_alarm_seconds=1.5, link_timeout_seconds=0.1, breaker_failures=2)
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        deployment.fake.gate.clear()
        assert (await client.send(payload="x"))[0] == 202
        await until_told(deployment, ("breaker-open-too-long", "breaker-open-too-long", "entered"))
        assert await _entries_of_open(client) >= 2
        assert "says that it is well" in entries(deployment)[0]["message"]
        opened = await _entries_of_open(client)
        while await _entries_of_open(client) < opened + 2:
            assert await lasting(client) == {"breaker-open-too-long"}
        deployment.fake.gate.set()
        await until_health(client, outbox_depth=0, conditions=[], status="ok")
    assert told(deployment)[1:] == [("cleared", "breaker-open-too-long", "cleared")]


async def _entries_of_open(client: Client) -> int:
    """How often the breaker has opened."""
    figures = (await client.call("GET", "/metrics"))[1]
    found = re.search(r'breaker_entries_total\{agent="pm",state="open"\} (\d+)', figures)
    assert found, figures
    return int(found[1])


async def test_a_forged_answer_is_told(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once however many there are; over when answers have been true for a while."""
    monkeypatch.setattr("sidecar.core.conditions.CALM_US", 300_000)
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.forging = True
        assert (await client.send(payload="x"))[0] == 202
        await until_told(deployment, ("bad-signature", "bad-signature", "entered"))
        assert "bad-signature" in await lasting(client)
        deployment.fake.forging = False
        await until_health(client, outbox_depth=0, conditions=[])
    kinds = [kind for _, kind, _ in told(deployment)]
    assert kinds.count("bad-signature") == 2


async def test_refused_sends_and_a_stopped_outbox_are_told(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first as a warning; the second is critical, and over when somebody has made room."""
    monkeypatch.setattr("sidecar.app.DEAD_MAX", 2)
    async with deployment.sidecar() as client:
        for number in range(3):
            await client.send(payload=number, idempotency_key=key(number))
        deployment.fake.judge = lambda _: Problem("contract-violation", "No.")
        async with deployment.adapter():
            await until_health(client, outbox_dead=2)
            await until_told(
                deployment,
                ("outbox-refused", "outbox-refused", "entered"),
                ("outbox-stopped", "outbox-stopped", "entered"),
            )
            deployment.fake.judge = lambda _: None
            for number in (0, 1):
                assert (await client.call("DELETE", f"/v1/outbox/{key(number)}"))[0] == 200
            await until_health(client, outbox_depth=0, conditions=[])
    assert {one["event"]: one["priority"] for one in entries(deployment)} == {
        "outbox-refused": 4, "outbox-stopped": 2, "cleared": 5
    }  # fmt: skip


async def test_a_store_that_cannot_be_written_is_told(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it says; and that it is over is noticed though nobody writes."""
    monkeypatch.setattr("sidecar.core.conditions.CALM_US", 100_000)
    monkeypatch.setattr("sidecar.monitor._RETRY_SECONDS", 0.2)
    broken, tries = True, []

    def transaction(connection: Any) -> Any:
        tries.append(connection)
        if broken:
            raise OSError(28, "No space left on device")
        return real(connection)

    async with deployment.sidecar() as client:
        from sidecar.store import store  # noqa: PLC0415 - what is replaced below

        real = store.transaction
        monkeypatch.setattr(store, "transaction", transaction)
        assert (await client.send())[0] == 503
        await until_told(deployment, ("disk-trouble", "disk-trouble", "entered"))
        assert "No space left on device" in entries(deployment)[0]["message"]
        before, ends_at = len(tries), time.monotonic() + 0.5
        await until(lambda: time.monotonic() > ends_at)
        assert 1 <= len(tries) - before <= 4  # now and then, whatever else changes
        broken = False
        await until_told(deployment, ("cleared", "disk-trouble", "cleared"))
        assert (await client.send())[0] == 202
        assert await lasting(client) == set()


async def test_a_log_that_cannot_be_emptied_is_told(
    deploy: Callable[..., Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection keeps a snapshot of the store while sends are queued; that it has ended is noticed though
    nobody writes, and nothing else happens."""
    deployment = deploy(breaker_reset_seconds=60, breaker_reset_cap_seconds=60)
    for part in ("sidecar.monitor", "sidecar.store.store"):
        monkeypatch.setattr(f"{part}.STUCK_BYTES_MAX", 500_000)
    monkeypatch.setattr("sidecar.store.store._LOG_LOOK_US", 10_000)
    monkeypatch.setattr("sidecar.core.conditions.CALM_US", 100_000)
    kind = "store-log-stuck"
    async with deployment.sidecar() as client:
        await client.send()
        with reading(deployment.config.sidecar_store("pm")) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM seen").fetchone()
            for _ in range(30):
                assert (await client.send(payload="x" * 50_000))[0] == 202
            await until_told(deployment, (kind, kind, "entered"))
            assert kind in await lasting(client)
        await until_told(deployment, ("cleared", kind, "cleared"))
        assert kind not in await lasting(client)
    assert [event for event, each, _ in told(deployment) if each == kind] == [kind, "cleared"]
