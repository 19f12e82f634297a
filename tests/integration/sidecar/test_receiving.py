"""Polls, acknowledgements, gaps, and agents that go away."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import aiohttp
import pytest

from sidecar.app import application
from sidecar.store.store import open_store
from tests.integration.sidecar.harness import Client, Deployment, key, until, until_health


async def test_a_message_is_handed_over_and_acked(deployment: Deployment) -> None:
    """The agent gets the envelope as stored, under a delivery id, and acks it with a result."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1))
        status, answer = await client.poll()
        assert (status, answer["gaps"]) == (200, [])
        (delivery,) = answer["messages"]
        assert delivery["envelope"] == deployment.fake.leased["d0"][1].envelope
        assert await client.ack("d0", d0={"done": [1, None]}) == (200, {"acked": ["d0"], "deferred": []})
        assert deployment.fake.acks == [{"delivery_ids": ["d0"], "results": {"d0": {"done": [1, None]}}}]


async def test_a_long_poll_wakes(deployment: Deployment) -> None:
    """A poll that waits gets what arrives meanwhile; one whose wait is over gets an empty list."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        poll = asyncio.ensure_future(client.poll(wait=20))
        await until(lambda: deployment.fake.polls_open)
        deployment.fake.deliver("qa", "product", 1, key(1))
        assert len((await poll)[1]["messages"]) == 1
        assert (await client.poll(wait=0.05))[1] == {"messages": [], "gaps": []}


async def test_a_poll_outlives_a_restart_of_the_adapter(deployment: Deployment) -> None:
    """It waits on while the adapter is away, and brings what came for it afterwards."""
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            poll = asyncio.ensure_future(client.poll(wait=20, count=1))
            await until(lambda: deployment.fake.polls_open)
        await until_health(client, breaker="open")
        late = asyncio.ensure_future(client.call("POST", "/v1/messages/receive", {"wait": 20.0, "max": 1}))
        async with deployment.adapter():
            await until(lambda: deployment.fake.polls_open == 2)
            deployment.fake.deliver("qa", "product", 1, key(1))
            deployment.fake.deliver("qa", "product", 2, key(2))
            answers = [await poll, await late]
            assert [len(answer["messages"]) for status, answer in answers if status == 200] == [1, 1]


async def test_acks_are_carried_once_and_their_poll_outlives_a_restart(deployment: Deployment) -> None:
    """The acks are deferred and told by themselves; the answer says so, and brings a message."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            fake.deliver("qa", "product", 1, key(1))
            await until_health(client, adapter_reachable=True)
            await client.poll()
        asked = {"wait": 20.0, "acks": {"delivery_ids": ["d0"]}}
        poll = asyncio.ensure_future(client.call("POST", "/v1/messages/receive", asked))
        await until_health(client, deferred_acks=1)
        async with deployment.adapter():
            await until_health(client, deferred_acks=0)
            fake.deliver("qa", "product", 2, key(2))
            _, answer = await poll
        assert answer["acks"] == {"code": 200, "answer": {"acked": [], "deferred": ["d0"]}}
        assert len(answer["messages"]) == 1
        assert fake.acks == [{"delivery_ids": ["d0"]}]


async def test_polls_do_not_hang_when_the_adapter_stays_away(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 `adapter-unreachable` with Retry-After, once it has been away for longer than a restart takes; from then on
    at once."""
    monkeypatch.setattr("sidecar.receiver.RESTART_SECONDS", 0.3)
    async with deployment.sidecar() as client:
        for most in (2.0, 0.2):
            before = time.monotonic()
            status, problem = await client.poll(wait=30)
            assert (status, problem["type"], client.headers["Retry-After"]) == (503, "adapter-unreachable", "1")
            assert time.monotonic() - before < most


async def test_a_poll_that_waits_for_the_adapter_ends_when_the_sidecar_does(deployment: Deployment) -> None:
    """It is answered within the time a stop has, and not held until the adapter is back or the wait is over."""
    async with contextlib.AsyncExitStack() as running:
        await running.enter_async_context(application(deployment.path, "pm"))
        async with deployment.client() as client:
            poll = asyncio.ensure_future(client.poll(wait=30))
            await until_health(client, breaker="open")
            assert not poll.done()
            await asyncio.wait_for(running.aclose(), 3)
            assert (await poll)[0] == 503


async def test_gaps_are_told_once_and_remembered(deployment: Deployment) -> None:
    """47 then 49 reveals 48, once, also after a restart; order within one hand-over does not matter."""
    fake = deployment.fake
    async with deployment.adapter():
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 1, key(1))
            fake.deliver("qa", "product", 3, key(3))
            fake.deliver("qa", "product", 2, key(2))
            assert (await client.poll())[1]["gaps"] == []
            fake.deliver("qa", "product", 5, key(5))
            fake.deliver("qa", "@qa", 3, key(13))
            gaps = (await client.poll())[1]["gaps"]
            assert gaps == [{"channel": "@qa", "from": 1, "to": 2}, {"channel": "product", "from": 4, "to": 4}]
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 4, key(4))
            fake.deliver("qa", "product", 6, key(6))
            assert (await client.poll())[1]["gaps"] == []


async def test_a_processed_message_is_absorbed_across_a_restart(deployment: Deployment) -> None:
    """What the agent acked never reaches it again: it is acked from memory, and the poll goes on."""
    fake = deployment.fake
    async with deployment.adapter():
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
            assert (await client.ack("d0", d0="result"))[0] == 200
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 1, key(1))
            poll = asyncio.ensure_future(client.poll(wait=20))
            await until(lambda: len(fake.acks) == 2)
            assert fake.acks[1] == {"delivery_ids": ["d1"], "results": {"d1": "result"}}
            fake.deliver("qa", "product", 2, key(2))
            (delivery,) = (await poll)[1]["messages"]
            assert delivery["envelope"]["idempotency_key"] == key(2)


async def test_the_same_key_of_another_sender_is_another_message(deployment: Deployment) -> None:
    """Processed keys are per sender."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1), sender="pm")
        await client.poll()
        await client.ack("d0")
        deployment.fake.deliver("qa", "product", 2, key(1), sender="qa")
        assert len((await client.poll())[1]["messages"]) == 1


async def test_fresh_and_processed_messages_of_one_hand_over(deployment: Deployment) -> None:
    """The processed one is acked behind the scenes, the fresh one goes to the agent."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        await client.ack("d0")
        fake.deliver("qa", "product", 1, key(1))
        fake.deliver("qa", "product", 2, key(2))
        messages = (await client.poll())[1]["messages"]
        assert [each["delivery_id"] for each in messages] == ["d2"]
        await until(lambda: fake.acks[-1] == {"delivery_ids": ["d1"]})


async def test_nack_and_extend_need_the_adapter(deployment: Deployment) -> None:
    """503 `adapter-unreachable`; the lease lapses by itself."""
    async with deployment.sidecar("qa") as client:
        for call, body in (("nack", {"delivery_id": "d0"}), ("extend", {"delivery_ids": ["d0"], "seconds": 1})):
            status, problem = await client.call("POST", f"/v1/messages/{call}", body)
            assert (status, problem["type"]) == (503, "adapter-unreachable")


async def test_a_poll_whose_agent_goes_away_is_closed_upstream(deployment: Deployment) -> None:
    """The adapter sees the poll end, and the next poll gets the message."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa"):
        async with deployment.client("qa") as ghost:
            poll = asyncio.ensure_future(ghost.poll(wait=30))
            await until(lambda: fake.polls_open)
            poll.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poll
        await until(lambda: fake.polls_cancelled == 1)
        fake.deliver("qa", "product", 1, key(1))
        async with deployment.client("qa") as client:
            assert len((await client.poll())[1]["messages"]) == 1


async def test_a_hand_over_whose_agent_is_gone_is_released(deployment: Deployment) -> None:
    """The adapter handed over, the agent had closed its connection: the leases go back, free, with their gaps."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa"):
        ghost = await asyncio.open_unix_connection(deployment.config.sidecar_socket("qa"))
        # Closed between the hand-over and its arrival here: neither side can know in time.
        fake.before_hand_over = ghost[1].transport.abort
        ghost[1].write(b"GET /v1/messages?wait=30 HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: fake.polls_open)
        fake.deliver("qa", "product", 2, key(2))
        await until(lambda: fake.nacks)
        assert (fake.nacks[0]["delivery_id"], fake.nacks[0]["mode"]) == ("d0", "release")
        fake.before_hand_over = lambda: None
        async with deployment.client("qa") as client:
            answer = (await client.poll(wait=5))[1]
            assert [each["delivery_id"] for each in answer["messages"]] == ["d1"]


async def test_a_hundred_ghosts_take_nothing(deployment: Deployment) -> None:
    """A hundred polls that were given up hold no message and no connection."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        for _ in range(10):
            async with deployment.client("qa") as ghost:
                polls = [asyncio.ensure_future(ghost.poll(wait=30)) for _ in range(10)]
                await until(lambda: fake.polls_open == 10)
                for poll in polls:
                    poll.cancel()
                await asyncio.gather(*polls, return_exceptions=True)
            await until(lambda: fake.polls_open == 0)
        for number in range(1, 11):
            fake.deliver("qa", "product", number, key(number))
        assert len((await client.poll())[1]["messages"]) == 10


async def test_results_are_bounded_and_belong_to_a_delivery(deployment: Deployment) -> None:
    """A result over its limit, or for a delivery that is not acked here, is refused before anything is kept."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        for status, problem in (await client.ack("d0", d0="x" * 16_384), await client.ack("d0", d1=1)):
            assert (status, problem["type"]) == (422, "invalid-field")
            assert problem["field"].startswith("/results/d")
        assert deployment.fake.acks == []
    async with open_store(deployment.config.sidecar_state("qa") / "sidecar.db") as store:
        assert await store.read(lambda db: db.execute("SELECT count(*) FROM processed").fetchone()) == (0,)


async def test_views_pass_through(deployment: Deployment) -> None:
    """Ranges, tasks and lineages reach the adapter with their parts encoded as they must be."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        _, answer = await client.call("GET", "/v1/channels/%40qa/messages?from=48&to=49")
        assert answer == {"path": {"channel": "@qa"}, "query": {"from": "48", "to": "49"}}
        assert (await client.call("GET", "/v1/tasks/t%20%C3%BC%3F1"))[1]["path"] == {"task_id": "t ü?1"}
        assert (await client.call("GET", "/v1/tasks/t1/lineage"))[1]["path"] == {"task_id": "t1"}
        status, problem = await client.call("GET", "/v1/channels/product/messages?from=0&to=1")
        assert (status, problem["field"]) == (422, "query from")


async def test_bad_poll_parameters_name_themselves(deployment: Deployment) -> None:
    """`wait` and `max` outside their bounds are 422."""
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        for query, field in (("wait=61", "wait"), ("wait=x", "wait"), ("max=0", "max"), ("max=101", "max")):
            status, problem = await client.call("GET", f"/v1/messages?{query}")
            assert (status, problem["type"], problem["field"]) == (422, "invalid-field", f"query {field}")


async def test_stopping_answers_open_polls(deployment: Deployment) -> None:
    """A poll that is open when the sidecar stops is answered, empty, within the time a stop has."""
    async with deployment.adapter(), contextlib.AsyncExitStack() as stack:
        async with deployment.sidecar("qa"):
            connector = aiohttp.UnixConnector(str(deployment.config.sidecar_socket("qa")))
            client = Client(await stack.enter_async_context(aiohttp.ClientSession(connector=connector)))
            poll = asyncio.ensure_future(client.poll(wait=30))
            await until(lambda: deployment.fake.polls_open)
            before = time.monotonic()
        assert await poll == (200, {"messages": [], "gaps": []})
        assert time.monotonic() - before < 2
        assert not deployment.config.sidecar_socket("qa").exists()


async def test_a_poll_whose_answer_was_lost_is_named_once(deployment: Deployment) -> None:
    """The next poll names it, so that its hand-overs come back at once; the one after that has nothing to name."""
    fake = deployment.fake

    def lose() -> None:
        raise ConnectionError

    async with deployment.adapter(), deployment.sidecar("qa") as client:
        await until_health(client, adapter_reachable=True)
        fake.before_hand_over = lose
        assert (await client.poll())[0] == 500
        fake.before_hand_over = lambda: None
        for _ in range(2):
            assert (await client.poll())[0] == 200
    first, second, third = fake.polls
    assert [first["lost"], second["lost"], third["lost"]] == [[], [first["poll"]], []]


async def test_a_deployment_may_wait_less_long_than_it_is_asked_to(deploy: Callable[..., Deployment]) -> None:
    """A client with its usual wait is served under a short limit too; only what no deployment grants is refused."""
    deployment = deploy(poll_wait_seconds_max=0.2)
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        assert await client.poll(wait=30) == (200, {"messages": [], "gaps": []})
        assert deployment.fake.polls[-1]["wait"] <= 0.2
        status, problem = await client.poll(wait=61)
        assert (status, problem["field"]) == (422, "query wait")
