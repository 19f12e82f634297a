"""An agent that is too fast is slowed down by its own sidecar, and a drain goes on when it is told to."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.problems import Problem
from sidecar.app import application
from tests.integration.sidecar.harness import Deployment, message, until, until_health


def too_fast(retry_after: float, per_second: int = 1_000) -> Problem:
    """What the adapter says to a sender without tokens."""
    return Problem("rate-limited", "Slower.", retry_after=retry_after, rate_class="normal", per_second=per_second)


def refuse(deployment: Deployment, *problems: Problem, payload: int | str = 0) -> list[Problem]:
    """The message with this payload meets these problems, one each time; what is behind it is held back.

    Gives those that are left.
    """
    left = list(problems)
    refused_in: list[int] = []
    others = deployment.fake.judge

    def judge(envelope: dict[str, Any]) -> Problem | None:
        batch = len(deployment.fake.batches)
        if batch in refused_in:
            return Problem("held-back", "Behind.")
        earlier = others(envelope)
        if earlier is None and envelope["payload"] == payload and left:
            refused_in.append(batch)
            return left.pop(0)
        return earlier

    deployment.fake.judge = judge
    return left


async def test_what_is_too_fast_waits_and_is_sent_again_in_order(deployment: Deployment) -> None:
    """The agent gets 201 later and no refusal; nothing enters the outbox, and nothing overtakes."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        refuse(deployment, *[too_fast(0.05)] * 3)
        started = time.monotonic()
        _, answer = await client.call(
            "POST", "/v1/messages/batch", {"messages": [message(payload=n) for n in range(9)]}
        )
        assert time.monotonic() - started >= 0.15
        assert [outcome["code"] for outcome in answer["outcomes"]] == [201] * 9
        assert deployment.fake.order("product") == list(range(9))
        assert (await client.health())["outbox_depth"] == 0
        assert 'sends_slowed_total{agent="pm"} 3.0' in (await client.call("GET", "/metrics"))[1]


async def test_nothing_overtakes_what_waits_for_its_rate(deployment: Deployment) -> None:
    """What the agent sends meanwhile stands behind it, on the direct path too."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        left = refuse(deployment, *[too_fast(0.2)] * 2)
        first = asyncio.ensure_future(client.send(payload=0))
        await until(lambda: len(left) == 1)
        later = [asyncio.ensure_future(client.send(payload=number)) for number in (1, 2)]
        answers = await asyncio.gather(first, *later)
        assert [status for status, _ in answers] == [201] * 3
        assert deployment.fake.order("product")[0] == 0


async def test_what_was_settled_before_it_is_answered_at_once(deployment: Deployment) -> None:
    """Accepted and refused neighbours do not wait for the one that is too fast, and are not sent again."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        answers = {
            0: None,
            1: Problem("contract-violation", "No."),
            2: too_fast(0.05),
            3: Problem("held-back", "Wait."),
        }
        deployment.fake.judge = lambda e: answers.pop(e["payload"], None)
        bodies = {"messages": [message(payload=n) for n in range(4)]}
        _, answer = await client.call("POST", "/v1/messages/batch", bodies)
        assert [outcome["code"] for outcome in answer["outcomes"]] == [201, 422, 201, 201]
        assert [len(batch) for batch in deployment.fake.batches] == [4, 2]


async def test_a_request_carries_what_the_rate_brings(deployment: Deployment) -> None:
    """Behind a refusal a hundred are not signed and sent in vain: as many leave as the wait has made tokens for."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        refuse(deployment, too_fast(0.01, per_second=200))
        bodies = {"messages": [message(payload=n) for n in range(100)]}
        await client.call("POST", "/v1/messages/batch", bodies)
        assert [len(batch) for batch in deployment.fake.batches] == [100, 20, 20, 20, 20, 20]
        assert deployment.fake.order("product") == list(range(100))


async def test_a_long_wait_is_the_outboxs(deployment: Deployment) -> None:
    """Beyond five seconds the agent is told 202; what is sent later joins, and all of it leaves in order."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        refuse(deployment, too_fast(60.0))
        bodies = {"messages": [message(payload=n) for n in range(3)]}
        _, answer = await client.call("POST", "/v1/messages/batch", bodies)
        assert [outcome["code"] for outcome in answer["outcomes"]] == [202] * 3
        await client.send(payload=3)
        await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == [0, 1, 2, 3]


async def test_polls_and_acks_are_not_slowed(deployment: Deployment) -> None:
    """While a send waits for its rate, the agent receives and acknowledges."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        slow = refuse(deployment, too_fast(4.0), payload=1)
        sending = asyncio.ensure_future(client.send(payload=1))
        await until(lambda: not slow)
        deployment.fake.deliver("pm", "@pm", 1, "00000000-0000-4000-8000-000000000001", sender="qa")
        started = time.monotonic()
        delivery = (await client.poll())[1]["messages"][0]
        assert (await client.ack(delivery["delivery_id"]))[0] == 200
        assert time.monotonic() - started < 2.0
        assert not sending.done()
        sending.cancel()


async def test_an_end_of_the_process_does_not_wait_for_a_rate(deployment: Deployment) -> None:
    """What waits is committed to the outbox and answered 202, and leaves with the next process."""
    async with deployment.adapter():
        async with deployment.client() as client:
            async with application(deployment.path, "pm"):
                await until_health(client, adapter_reachable=True)
                slow = refuse(deployment, too_fast(4.0), payload="kept")
                sending = asyncio.ensure_future(client.send(payload="kept"))
                await until(lambda: not slow)
                started = time.monotonic()
            assert time.monotonic() - started < 3.0
            assert (await sending)[0] == 202
        async with deployment.sidecar() as client:
            await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == ["kept"]


async def queue_up(deployment: Deployment, count: int) -> None:
    """So many sends enter the outbox while there is no adapter."""
    async with deployment.sidecar() as client:
        for number in range(count):
            assert (await client.send(payload=number))[0] == 202


async def test_a_drain_waits_as_told_and_goes_on(deploy: Callable[..., Deployment]) -> None:
    """Not until the next health poll, which is a minute away here: rates and full queues have a time of their own."""
    deployment = deploy(health_poll_seconds=60)
    await queue_up(deployment, 5)
    fast = refuse(deployment, *[too_fast(0.05)] * 2, payload=1)
    full = refuse(deployment, *[Problem("queue-full", "Full.", retry_after=0.05)] * 2, payload=3)
    started = time.monotonic()
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, outbox_depth=0)
        assert time.monotonic() - started >= 0.2
    assert deployment.fake.order("product") == [0, 1, 2, 3, 4]
    assert not fast
    assert not full


@pytest.mark.parametrize(
    ("slow_seconds", "sizes"), [(3_600.0, [16, 32, 64, 88]), (0.0, [16, 8, *[4] * 44])], ids=["quick", "slow"]
)
async def test_a_drain_begins_small_and_leaves_room(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, slow_seconds: float, sizes: list[int]
) -> None:
    """While the adapter answers soon the requests grow up to the largest; while it does not they shrink to a few."""
    monkeypatch.setattr("sidecar.core.drain._SECONDS_SLOW", slow_seconds)
    async with deployment.sidecar() as client:
        for half in (range(100), range(100, 200)):
            await client.call("POST", "/v1/messages/batch", {"messages": [message(payload=n) for n in half]})
        async with deployment.adapter():
            await until_health(client, outbox_depth=0)
    assert list(map(len, deployment.fake.batches)) == sizes
    assert deployment.fake.order("product") == list(range(200))


async def test_acks_do_not_wait_for_a_drain_that_waits(deploy: Callable[..., Deployment]) -> None:
    """An ack that is deferred while the drain waits is told when it goes on, and not when the outbox is empty."""
    deployment = deploy(breaker_failures=1_000)
    await queue_up(deployment, 1)
    deployment.fake.judge = lambda _: Problem("queue-full", "Full.", retry_after=0.05)
    async with deployment.adapter(), deployment.sidecar() as client:
        await until(lambda: len(deployment.fake.batches) > 1)
        deployment.fake.deliver("pm", "@pm", 1, "00000000-0000-4000-8000-000000000001", sender="qa")
        delivery = (await client.poll(wait=2))[1]["messages"][0]
        deployment.fake.forging = True
        assert (await client.ack(delivery["delivery_id"]))[1]["deferred"] == [delivery["delivery_id"]]
        deployment.fake.forging = False
        await until(lambda: len(deployment.fake.acks) > 1)
        assert (await until_health(client, deferred_acks=0))["outbox_depth"] == 1
