"""Scheduled sends through a sidecar: the adapter's 202 is told on, and is not that of the outbox."""

import time
from typing import Any

import pytest

from shared.times import iso
from tests.integration.sidecar.harness import Deployment, key, until_health


def at(seconds: float) -> str:
    """An RFC 3339 time from now."""
    return iso(int((time.time() + seconds) * 1e6))


async def test_the_adapters_202_is_told_on(deployment: Deployment) -> None:
    """`scheduled` is its word and not `queued`; nothing waits here, and it counts as accepted."""
    later = at(60)
    answer = {"status": "scheduled", "deliver_at": later, "idempotency_key": key(1), "duplicate": False}
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        deployment.fake.answer = lambda _: {"code": 202, "answer": answer}
        assert await client.send(idempotency_key=key(1), deliver_at=later) == (202, answer)
        metrics = (await client.call("GET", "/metrics"))[1]
        assert 'sends_accepted_total{agent="pm"} 1.0' in metrics
        assert 'sends_queued_total{agent="pm"} 0.0' in metrics
        assert (await client.health())["outbox_depth"] == 0


async def test_one_that_was_queued_is_scheduled_when_the_outbox_drains(deployment: Deployment) -> None:
    """The adapter's 202 settles it: it leaves the outbox and is not sent again."""
    deployment.fake.answer = lambda e: {"code": 202, "answer": {"status": "scheduled"}} if "deliver_at" in e else None
    async with deployment.sidecar() as client:
        status, answer = await client.send(deliver_at=at(60))
        assert (status, answer["status"]) == (202, "queued")
        await client.send(payload="after it")
        async with deployment.adapter():
            await until_health(client, outbox_depth=0, outbox_dead=0)
        assert deployment.fake.order("product") == ["after it"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"deliver_at": at(31 * 86_400)}, "/deliver_at"),
        ({"deliver_at": "tomorrow"}, "/deliver_at"),
        ({"deliver_at": at(60), "expires_at": at(30)}, "/expires_at"),
        ({"deliver_at": at(60), "deadline": at(30)}, "/deadline"),
    ],
)
async def test_what_could_never_be_sent_does_not_enter_the_outbox(
    deployment: Deployment, fields: dict[str, Any], field: str
) -> None:
    """With the adapter away it is refused as with it, and not later, unseen."""
    async with deployment.sidecar() as client:
        status, problem = await client.send(**fields)
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", field)
        assert (await client.health())["outbox_depth"] == 0


async def test_without_an_adapter_nothing_is_known(deployment: Deployment) -> None:
    """Both calls say so, and may be made again."""
    async with deployment.sidecar() as client:
        for method, path in (("GET", "/v1/scheduled?limit=5"), ("DELETE", f"/v1/scheduled/{key(1)}?sender=qa")):
            status, problem = await client.call(method, path)
            assert (status, problem["type"], problem["retryable"]) == (503, "adapter-unreachable", True), path


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "/v1/scheduled?sender=" + "x" * 129, "query sender"),
        ("DELETE", "/v1/scheduled/" + "x" * 129, "path idempotency_key"),
    ],
)
async def test_what_is_no_question_is_refused_here(deployment: Deployment, method: str, path: str, field: str) -> None:
    """A line too long for the adapter would count as a failure of the link."""
    async with deployment.sidecar() as client:
        status, problem = await client.call(method, path)
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", field)
