"""The outbox over the agents' API: seen, sent again, dropped, and full."""

import asyncio
import json
from collections.abc import Callable

import pytest

from shared.problems import Problem
from tests.integration.sidecar.harness import Client, Deployment, key, until, until_health

_UNKNOWN = key(999)


async def _queue(client: Client, count: int) -> None:
    for number in range(count):
        status, _ = await client.send(payload=number, idempotency_key=key(number), type="note/1")
        assert status == 202


def _refuse(deployment: Deployment, *payloads: int) -> None:
    """Have the adapter refuse these for good."""
    problem = Problem("contract-violation", "No.", field="/payload")
    deployment.fake.judge = lambda envelope: problem if envelope["payload"] in payloads else None


async def test_what_waits_is_listed_and_shown(deployment: Deployment) -> None:
    """In order, with what it is and for how long, by pages; one of them whole."""
    async with deployment.sidecar() as client:
        await _queue(client, 3)
        await client.send(payload=3, idempotency_key=key(3), type="task.cancel/1", task_id="t")
        status, page = await client.call("GET", "/v1/outbox?limit=3")
        assert (status, page["depth"], page["outbox_max"], page["critical_reserve"]) == (200, 4, 1_000, 50)
        assert [(one["position"], one["idempotency_key"]) for one in page["waiting"]] == [
            (n + 1, key(n)) for n in (0, 1, 2)
        ]
        one = page["waiting"][0]
        assert (one["to"], one["type"], one["priority"], one["status"]) == ("product", "note/1", "normal", "waiting")
        assert one["bytes"] > 50
        assert one["age_seconds"] >= 0
        _, rest = await client.call("GET", f"/v1/outbox?limit=3&after={page['next']}")
        assert [(one["position"], one["priority"]) for one in rest["waiting"]] == [(4, "critical")]
        assert rest["next"] is None
        status, whole = await client.call("GET", f"/v1/outbox/{key(3)}")
        assert (status, whole["position"], whole["refused_at"], whole["problem"]) == (200, 4, None, None)
        assert (whole["envelope"]["payload"], whole["envelope"]["sender"]) == (3, "pm")


async def test_what_was_refused_is_listed_and_sent_again(deployment: Deployment) -> None:
    """With the adapter's own words; behind all that wait, under the same key, and once."""
    async with deployment.sidecar() as client:
        await _queue(client, 3)
        _refuse(deployment, 0)
        async with deployment.adapter():
            await until_health(client, outbox_depth=0, outbox_dead=1)
            _, page = await client.call("GET", "/v1/outbox/dead")
            (one,) = page["dead"]
            assert (one["idempotency_key"], one["status"], page["count"]) == (key(0), "dead", 1)
            assert (one["problem"]["type"], one["problem"]["field"]) == ("contract-violation", "/payload")
            _, whole = await client.call("GET", f"/v1/outbox/{key(0)}")
            assert (whole["problem"]["detail"], whole["position"]) == ("No.", None)
            _refuse(deployment)
            status, answer = await client.call("POST", f"/v1/outbox/{key(0)}/resend", {})
            assert (status, answer["status"], answer["idempotency_key"]) == (202, "queued", key(0))
            await until_health(client, outbox_depth=0, outbox_dead=0)
            assert deployment.fake.order("product") == [1, 2, 0]


async def test_a_new_key_makes_another_message(deployment: Deployment) -> None:
    """For one whose key the adapter knows with other content."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await client.send(payload="first", idempotency_key=key(1))
        deployment.fake.judge = lambda _: Problem("held-back", "Not yet.")
        assert (await client.send(payload="second", idempotency_key=key(1)))[0] == 202
        deployment.fake.judge = lambda _: None
        await until_health(client, outbox_dead=1, outbox_depth=0)
        status, answer = await client.call("POST", f"/v1/outbox/{key(1)}/resend", {"new_key": key(2)})
        assert (status, answer["idempotency_key"]) == (202, key(2))
        await until_health(client, outbox_depth=0, outbox_dead=0)
        assert deployment.fake.order("product") == ["first", "second"]


async def test_a_drop_leaves_a_trace_and_the_rest_in_order(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, and in the journal (here its file) for one that had waited; never its content."""
    monkeypatch.setattr("shared.journal.send_entry", lambda *_: False)
    async with deployment.sidecar() as client:
        await _queue(client, 4)
        assert (await client.send(payload="my secret", idempotency_key=key(9)))[0] == 202
        status, dropped = await client.call("DELETE", f"/v1/outbox/{key(9)}")
        assert (status, dropped) == (200, {"idempotency_key": key(9), "status": "dropped", "was": "waiting"})
        _refuse(deployment, 2)
        async with deployment.adapter():
            await until_health(client, outbox_depth=0, outbox_dead=1)
            assert (await client.call("DELETE", f"/v1/outbox/{key(2)}"))[1]["was"] == "dead"
            assert (await client.health())["outbox_dead"] == 0
        assert deployment.fake.order("product") == [0, 1, 3]
    entries = _journal(deployment, "outbox-dropped")
    assert [(entry["details"]["idempotency_key"], entry["priority"]) for entry in entries] == [(key(9), 4)]
    audit = [record.getMessage() for record in caplog.records if "outbox-dropped" in record.getMessage()]
    assert [key(9) in audit[0], key(2) in audit[1]] == [True, True]
    assert "my secret" not in json.dumps(entries) + "".join(audit)


async def test_what_is_being_sent_cannot_be_dropped(deployment: Deployment) -> None:
    """409 while its request is open; it has arrived a moment later."""
    async with deployment.sidecar() as client:
        await _queue(client, 1)
        deployment.fake.gate.clear()
        async with deployment.adapter():
            await until(lambda: deployment.fake.batches)
            _, page = await client.call("GET", "/v1/outbox")
            assert page["waiting"][0]["status"] == "in-flight"
            status, problem = await client.call("DELETE", f"/v1/outbox/{key(0)}")
            assert (status, problem["type"], problem["retryable"]) == (409, "in-flight", True)
            deployment.fake.gate.set()
            await until_health(client, outbox_depth=0)
            assert deployment.fake.order("product") == [0]


async def test_a_resend_overtakes_nothing_on_the_direct_path(deployment: Deployment) -> None:
    """A send under way when one is sent again reaches the adapter before what is sent after it."""
    async with deployment.adapter(), deployment.sidecar() as client:
        _refuse(deployment, 0)
        deployment.fake.ready = False
        await until_health(client, breaker="open")
        await _queue(client, 1)
        deployment.fake.ready = True
        await until_health(client, outbox_dead=1, outbox_depth=0, breaker="closed")
        _refuse(deployment)
        batches = len(deployment.fake.batches)
        deployment.fake.gate.clear()
        under_way = asyncio.ensure_future(client.send(payload=1))
        await until(lambda: len(deployment.fake.batches) > batches)
        assert (await client.call("POST", f"/v1/outbox/{key(0)}/resend", {}))[0] == 202
        after = asyncio.ensure_future(client.send(payload=2))
        probes = deployment.fake.heard.count("/health")
        await until(lambda: deployment.fake.heard.count("/health") > probes + 2)  # each would start a drain
        assert len(deployment.fake.batches) == batches + 1
        deployment.fake.gate.set()
        assert [(await send)[0] for send in (under_way, after)] == [201, 202]
        await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == [1, 0, 2]


async def test_refused_sends_never_push_each_other_out(
    deploy: Callable[..., Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the bound the outbox stops and says so; once there is room it goes on, and nothing was lost."""
    monkeypatch.setattr("sidecar.app.DEAD_MAX", 2)
    deployment = deploy()
    async with deployment.sidecar() as client:
        await _queue(client, 5)
        _refuse(deployment, 0, 1, 2)
        async with deployment.adapter():
            await until_health(client, outbox_dead=2, outbox_depth=3, adapter_reachable=True)
            batches, probes = len(deployment.fake.batches), deployment.fake.heard.count("/health")
            await until(lambda: deployment.fake.heard.count("/health") > probes + 2)
            assert len(deployment.fake.batches) == batches
            assert (await client.call("GET", "/v1/outbox"))[1]["stopped"] is True
            assert (await client.call("DELETE", f"/v1/outbox/{key(0)}"))[0] == 200
            await until_health(client, outbox_dead=2, outbox_depth=2)
            assert (await client.call("DELETE", f"/v1/outbox/{key(1)}"))[0] == 200
            await until_health(client, outbox_dead=1, outbox_depth=0)
            assert deployment.fake.order("product") == [3, 4]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/v1/outbox?after=x", None, (422, "invalid-field", "query after")),
        ("GET", "/v1/outbox?limit=501", None, (422, "invalid-field", "query limit")),
        ("GET", "/v1/outbox/dead?limit=0", None, (422, "invalid-field", "query limit")),
        ("GET", "/v1/outbox/..%2Fx", None, (422, "invalid-field", "path idempotency_key")),
        ("GET", f"/v1/outbox/{_UNKNOWN}", None, (404, "not-found", None)),
        ("DELETE", f"/v1/outbox/{_UNKNOWN}", None, (404, "not-found", None)),
        ("POST", f"/v1/outbox/{_UNKNOWN}/resend", {}, (404, "not-found", None)),
        ("POST", f"/v1/outbox/{_UNKNOWN}/resend", {"new_key": "x"}, (422, "invalid-field", "/new_key")),
        ("POST", f"/v1/outbox/{_UNKNOWN}/resend", {"keys": []}, (422, "unknown-field", "/keys")),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    deployment: Deployment, method: str, path: str, body: object, expected: tuple[int, str, str | None]
) -> None:
    """With the field, or as not found."""
    async with deployment.sidecar() as client:
        status, problem = await client.call(method, path, body)
        assert (status, problem["type"], problem.get("field")) == expected


def _journal(deployment: Deployment, event: str) -> list[dict]:
    path = deployment.config.sidecar_state("pm") / "emergencies.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["event"] == event]
