"""Acknowledgements: what is durable before the adapter hears, what waits for it, and what is refused."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from sidecar.core.link_outcome import LinkAnswer
from sidecar.link import Link
from sidecar.store.processed import MessageKey, recall
from sidecar.store.store import Store
from tests.integration.sidecar.harness import Deployment, key, until_health
from tests.support.agent_client import AgentClient
from tests.support.store_hand import reading


async def test_acks_wait_for_the_adapter(deployment: Deployment) -> None:
    """With the adapter away an ack is kept, over a restart too, and told when it is back."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            for number in (1, 2):
                fake.deliver("qa", "product", number, key(number))
            await client.poll()
        assert await client.ack("d0", d0=[1]) == (200, {"acked": [], "deferred": ["d0"]})
        await until_health(client, deferred_acks=1, breaker="open")
        assert (await client.ack("d1"))[1]["deferred"] == ["d1"]
    async with deployment.sidecar("qa") as client:
        await until_health(client, deferred_acks=2, breaker="open")
        async with deployment.adapter():
            await until_health(client, deferred_acks=0)
        assert fake.acks == [{"delivery_ids": ["d0", "d1"], "results": {"d0": [1]}}]


async def test_a_deferred_ack_whose_lease_is_over_is_absorbed_later(deployment: Deployment) -> None:
    """Told too late it is dropped; the message comes again, and the memory of it answers."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
        await client.ack("d0")
        fake.lapse("d0")
        async with deployment.adapter():
            await until_health(client, deferred_acks=0, breaker="closed")
            assert (await client.poll(wait=0.1))[1]["messages"] == []
            assert fake.acks[-1] == {"delivery_ids": ["d1"]}


async def test_an_ack_that_was_deferred_stays_given(deployment: Deployment) -> None:
    """The agent has a 2xx. It acks once more, after the lease has ended: it is deferred still, and the message does
    not come again."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            for number in (1, 2):
                fake.deliver("qa", "product", number, key(number))
            await client.poll()
        assert await client.ack("d0") == (200, {"acked": [], "deferred": ["d0"]})
        fake.lapse("d0")
        async with deployment.adapter():
            await until_health(client, deferred_acks=0, breaker="closed")
            assert await client.ack("d0") == (200, {"acked": [], "deferred": ["d0"]})
            assert (await client.poll(wait=0.1))[1]["messages"] == []
            fake.lapse("d1")
            status, problem = await client.ack("d0", "d1")
            assert (status, problem["type"]) == (409, "stale-lease")
            assert (problem["stale"], problem["acked"], problem["deferred"]) == (["d1"], [], ["d0"])
            assert [each["delivery_id"] for each in (await client.poll())[1]["messages"]] == ["d3"]


async def test_an_unknown_deferred_ack_does_not_hold_up_others(deployment: Deployment) -> None:
    """One that the adapter knows no more is dropped; its neighbours are told."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            for number in (1, 2):
                fake.deliver("qa", "product", number, key(number))
            await client.poll()
        assert (await client.ack("d1", "d0"))[1]["deferred"] == ["d1", "d0"]
        del fake.leased["d1"]
        async with deployment.adapter():
            await until_health(client, deferred_acks=0)
        assert {"delivery_ids": ["d0"]} in fake.acks


async def test_only_what_this_process_handed_out_is_deferred(deployment: Deployment) -> None:
    """After the sidecar was killed it cannot tell which message a hand-over was, so with the adapter away it promises
    nothing: 503, the ack is repeated, and whatever lapsed meanwhile may rightly come again."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            fake.deliver("qa", "product", 2, key(2))
            await client.poll()
        for _ in range(2):
            status, problem = await client.ack("d0", "d1")
            assert (status, problem["type"], problem["retryable"]) == (503, "adapter-unreachable", True)
            await until_health(client, deferred_acks=1, breaker="open")
        async with deployment.adapter():
            await until_health(client, deferred_acks=0)
            assert await client.ack("d0", "d1") == (200, {"acked": ["d0", "d1"], "deferred": []})
        assert fake.acks[0] == {"delivery_ids": ["d1"]}


async def test_with_the_adapter_away_only_the_newest_hand_over_is_deferred(deployment: Deployment) -> None:
    """A message that lapsed and came again has one hand-over that counts: 409 for the first, a 2xx for the second."""
    fake = deployment.fake
    async with deployment.sidecar("qa") as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            fake.deliver("qa", "product", 1, key(1))
            fake.deliver("qa", "product", 2, key(2))
            await client.poll()
            fake.lapse("d0")
            await client.poll()
        status, problem = await client.ack("d0", "d1")
        assert (status, problem["type"]) == (409, "stale-lease")
        assert (problem["stale"], problem["acked"], problem["deferred"]) == (["d0"], [], ["d1"])
        assert await client.ack("d2") == (200, {"acked": [], "deferred": ["d2"]})
        async with deployment.adapter():
            await until_health(client, deferred_acks=0)
        assert fake.acks == [{"delivery_ids": ["d1", "d2"]}]


async def test_a_refused_ack_changes_nothing(deployment: Deployment) -> None:
    """409 says that the message comes again, and it does, with a hand-over that can be acked, restart or not."""
    fake = deployment.fake
    async with deployment.adapter():
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
            fake.lapse("d0")
            assert (await client.ack("d0"))[0] == 409
        async with deployment.sidecar("qa") as client:
            (delivery,) = (await client.poll())[1]["messages"]
            assert await client.ack(delivery["delivery_id"]) == (200, {"acked": ["d1"], "deferred": []})
            fake.deliver("qa", "product", 1, key(1))
            assert (await client.poll(wait=0.1))[1]["messages"] == []


async def test_a_refused_ack_takes_back_one_whose_answer_was_lost(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent hung up before the first answer, the lease ended, and its second ack is refused: the message comes."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        await _ack_unheard(client, monkeypatch, "d0")
        fake.lapse("d0")
        assert (await client.ack("d0"))[0] == 409
        assert [each["delivery_id"] for each in (await client.poll())[1]["messages"]] == ["d1"]


async def _ack_unheard(client: AgentClient, monkeypatch: pytest.MonkeyPatch, delivery_id: str) -> None:
    """The sidecar commits the processed key, and nobody hears of it: neither the adapter nor the agent."""
    asked = asyncio.Event()

    async def hang(_: Link, method: str, target: str, body: bytes) -> LinkAnswer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError((method, target, body))

    with monkeypatch.context() as patch:
        patch.setattr(Link, "call", hang)
        first = asyncio.ensure_future(client.ack(delivery_id))
        await asked.wait()
        first.cancel()


@pytest.fixture
async def unheard(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AgentClient]:
    """A sidecar whose predecessor died between saving a processed key and telling the adapter; the lease has ended."""
    fake = deployment.fake
    async with deployment.adapter():
        async with deployment.sidecar("qa") as client:
            fake.deliver("qa", "product", 1, key(1))
            await client.poll()
            await _ack_unheard(client, monkeypatch, "d0")
        fake.lapse("d0")
        async with deployment.sidecar("qa") as client:
            await until_health(client, adapter_reachable=True)
            yield client


async def test_a_refusal_counts_over_a_crash_of_the_sidecar(unheard: AgentClient) -> None:
    """The agent is told 409 by the next process, so it undoes its work: the message comes again."""
    assert (await unheard.ack("d0"))[0] == 409
    assert [each["delivery_id"] for each in (await unheard.poll())[1]["messages"]] == ["d1"]


async def test_what_was_absorbed_after_a_crash_is_acknowledged(unheard: AgentClient, deployment: Deployment) -> None:
    """The message came again before the agent could repeat its ack, and never will any more: so that is a success."""
    assert (await unheard.poll(wait=0.1))[1]["messages"] == []
    assert await unheard.ack("d0") == (200, {"acked": [], "deferred": ["d0"]})
    assert deployment.fake.acks[-1] == {"delivery_ids": ["d0"]}
    deployment.fake.deliver("qa", "product", 1, key(1))
    assert (await unheard.poll(wait=0.1))[1]["messages"] == []


async def test_an_ack_of_an_earlier_process_that_is_recorded_can_be_promised(
    unheard: AgentClient, deployment: Deployment
) -> None:
    """With the adapter away, too: the record says what it is about. Refused later, it stands all the same, and is not
    called acked: the adapter has the message queued until it hands it over again."""
    deployment.fake.forging = True
    assert await unheard.ack("d0") == (200, {"acked": [], "deferred": ["d0"]})
    deployment.fake.forging = False
    await until_health(unheard, deferred_acks=0, breaker="closed")
    assert await unheard.ack("d0") == (200, {"acked": [], "deferred": ["d0"]})
    assert (await unheard.poll(wait=0.1))[1]["messages"] == []


@pytest.mark.parametrize(("believed", "status", "handed"), [(True, 409, ["d1"]), (False, 200, [])])
async def test_a_poll_waits_for_an_ack_that_is_under_way(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, believed: bool, status: int, handed: list[str]
) -> None:
    """A poll brings a message that has just lapsed, and looks into the memory just before its ack is saved there.

    Only the answer to the ack decides: handed out after 409, absorbed after a 2xx.
    """
    fake = deployment.fake
    looked, go_on = asyncio.Event(), asyncio.Event()

    async def look_and_wait(store: Store, keys: Iterable[MessageKey]) -> dict[MessageKey, bytes | None]:
        found = await recall(store, keys)
        looked.set()
        await go_on.wait()
        return found

    async def ask(link: Link, method: str, target: str, body: bytes) -> LinkAnswer:
        go_on.set()  # the poll goes on while the ack is on its way
        return await call(link, method, target, body)

    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        fake.lapse("d0")
        monkeypatch.setattr("sidecar.receiver.recall", look_and_wait)
        poll = asyncio.ensure_future(client.poll(wait=0.2))
        await looked.wait()
        call = Link.call
        monkeypatch.setattr(Link, "call", ask)
        fake.forging = not believed
        assert (await client.ack("d0"))[0] == status
        monkeypatch.setattr(Link, "call", call)
        fake.forging = False
        assert [delivery["delivery_id"] for delivery in (await poll)[1]["messages"]] == handed


async def test_refusals_of_leases_pass_on(deployment: Deployment) -> None:
    """409 names the stale ones, 404 the unknown, for ack, nack alike; extensions pass through."""
    fake = deployment.fake
    async with deployment.adapter(), deployment.sidecar("qa") as client:
        fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        extend = {"delivery_ids": ["d0"], "seconds": 60}
        assert (await client.call("POST", "/v1/messages/extend", extend))[1]["leases"][0]["delivery_id"] == "d0"
        nack = {"delivery_id": "d0", "mode": "fail", "reason": "no"}
        assert (await client.call("POST", "/v1/messages/nack", nack))[1] == {"delivery_id": "d0", "status": "queued"}
        status, problem = await client.ack("d0")
        assert (status, problem["type"], problem["stale"]) == (409, "stale-lease", ["d0"])
        assert (await client.ack("d99"))[1]["type"] == "unknown-delivery"
        assert (await client.call("POST", "/v1/messages/nack", {"delivery_id": "d99"}))[0] == 404


async def test_the_processed_key_is_durable_before_the_adapter_hears(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the ack leaves for the adapter, the store's file holds the key already."""
    path = deployment.config.sidecar_state("qa") / "sidecar.db"
    found: list[int] = []
    call = Link.call

    async def ask(link: Link, method: str, target: str, body: bytes) -> LinkAnswer:
        with reading(path) as outside:
            found.extend(outside.execute("SELECT count(*) FROM processed").fetchone())
        return await call(link, method, target, body)

    async with deployment.adapter(), deployment.sidecar("qa") as client:
        deployment.fake.deliver("qa", "product", 1, key(1))
        await client.poll()
        monkeypatch.setattr(Link, "call", ask)
        assert (await client.ack("d0"))[0] == 200
        assert found == [1]
