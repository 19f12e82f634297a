"""Acks that a poll of the agent carries: one trip upstream, and every promise of an ack of its own."""

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import pytest

from shared.link import ACK_PATH, POLL_PATH
from sidecar.core.link_outcome import LinkAnswer
from sidecar.link import Link
from tests.integration.sidecar.harness import Client, Deployment, key, until, until_health
from tests.support.store_hand import reading

DONE = {"code": 200, "answer": {"acked": ["d0"], "deferred": []}}
DEFERRED = {"code": 200, "answer": {"acked": [], "deferred": ["d0"]}}


async def receive(client: Client, *acks: str, wait: float = 0, **results: Any) -> tuple[int, Any]:
    """Status and document of a poll that carries acks."""
    carried = {"delivery_ids": list(acks)} | ({"results": results} if results else {})
    return await client.call("POST", "/v1/messages/receive", {"wait": wait, "acks": carried})


async def test_one_request_upstream_does_both(deployment: Deployment) -> None:
    """The result travels with it, the outcome comes with the next message, and nothing is asked beside it."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        for number in (1, 2):
            fake.deliver("qa", "product", number, key(number))
        await client.poll(count=1)
        fake.heard.clear()
        status, document = await receive(client, "d0", d0={"ok": True})
        assert (status, document["acks"]) == (200, DONE)
        assert [message["delivery_id"] for message in document["messages"]] == ["d1"]
        assert [path for path in fake.heard if path in {ACK_PATH, POLL_PATH}] == [POLL_PATH]
        assert fake.acks == [{"delivery_ids": ["d0"], "results": {"d0": {"ok": True}}}]


async def test_without_acks_it_is_a_poll(deployment: Deployment) -> None:
    """With nothing to tell of acks."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        assert await client.call("POST", "/v1/messages/receive", {}) == (200, {"messages": [], "gaps": []})
        assert deployment.fake.polls[-1].get("acks") is None


async def test_without_the_adapter_the_acks_are_deferred_and_told_in_the_problem(deployment: Deployment) -> None:
    """There is nothing to hand over, so it is a 503; what was processed is kept, and told when the adapter is back."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
        status, problem = await receive(client, "d0", d0=[1])
        assert (status, problem["type"], problem["acks"]) == (503, "adapter-unreachable", DEFERRED)
        async with deployment.adapter():
            await until_health(client, deferred_acks=0, breaker="closed")
    assert fake.acks == [{"delivery_ids": ["d0"], "results": {"d0": [1]}}]


@pytest.mark.parametrize("forging", [True, False])
async def test_an_answer_that_says_nothing_of_the_acks_leaves_them_deferred(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, forging: bool
) -> None:
    """Whether it is not believed, or holds no word of them: they are told again, and the agent has its 2xx for them."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        fake.forging = forging
        monkeypatch.setattr(fake, "_acked", lambda _: {})
        _, document = await receive(client, "d0")
        assert document["acks"] == DEFERRED
        fake.forging = False
        await until_health(client, deferred_acks=0, breaker="closed")
    assert {"delivery_ids": ["d0"]} in fake.acks


async def test_a_refused_ack_does_not_absorb_what_comes_with_its_answer(deployment: Deployment) -> None:
    """The lease had ended: the agent is told so, and the message is its own again, in the same answer."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        fake.lapse("d0")
        status, document = await receive(client, "d0")
        assert (status, document["acks"]["code"], document["acks"]["problem"]["stale"]) == (200, 409, ["d0"])
        assert [message["delivery_id"] for message in document["messages"]] == ["d1"]
        assert (await receive(client, "d1"))[1]["acks"]["answer"]["acked"] == ["d1"]


async def test_the_processed_key_is_durable_before_the_poll_leaves(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before an ack of its own: a message whose ack is lost on the way never reaches the agent again."""
    path = deployment.config.sidecar_store("qa")
    found: list[int] = []
    call = Link.call

    async def ask(link: Link, method: str, target: str, body: bytes, **options: Any) -> LinkAnswer:
        if target == POLL_PATH:
            with reading(path) as outside:
                found.extend(outside.execute("SELECT count(*) FROM processed").fetchone())
        return await call(link, method, target, body, **options)

    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        monkeypatch.setattr(Link, "call", ask)
        assert (await receive(client, "d0"))[0] == 200
    assert found == [1]


async def test_acks_that_cannot_be_told_refuse_the_request(deployment: Deployment) -> None:
    """Before anything is done: the field is named as the request has it, and nothing is asked upstream."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1))
        status, problem = await receive(client, "d0", d1=[1])
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", "/acks/results/d1")
        assert deployment.fake.polls == []


async def test_stopping_answers_for_acks_as_well(deployment: Deployment) -> None:
    """What the adapter made of them is not known then, so they are deferred, within the time a stop has."""
    fake = deployment.fake
    async with deployment.adapter(), contextlib.AsyncExitStack() as stack:
        async with deployment.sidecar("qa"):
            connector = aiohttp.UnixConnector(str(deployment.config.sidecar_socket("qa")))
            client = Client(await stack.enter_async_context(aiohttp.ClientSession(connector=connector)))
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
            receiving = asyncio.ensure_future(receive(client, "d0", wait=30))
            await until(lambda: fake.polls_open)
            before = time.monotonic()
        assert await receiving == (200, {"messages": [], "gaps": [], "acks": DEFERRED})
        assert time.monotonic() - before < 2
