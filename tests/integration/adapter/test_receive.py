"""What became of an answer that could not be written: the seam between the web server and the broker."""

import asyncio
from types import SimpleNamespace

import pytest

from adapter.broker import Broker
from adapter.core.commands import Ack, Claim
from adapter.http.receive import Receive
from adapter.http.roster import Roster
from adapter.store.engine import Store
from shared.clock import Clock
from shared.strict_json import decode
from tests.support.factories import membership, policy, send, topology


@pytest.fixture
async def broker(tmp_path):
    store = Store(tmp_path / "store.db", membership(), policy(), Clock())
    opened = Broker(store, Clock())
    await store.open()
    yield opened
    await opened.close()
    await store.close()


def poll_of(agent, **body):
    return SimpleNamespace(agent=agent, json=lambda: {"wait": 0, "max": 10} | body)


async def test_an_answer_nobody_took_gives_its_leases_back(broker):
    """At once, and free: the next poll has the message (promise 5)."""
    receive = Receive(broker, broker._store, Roster(topology(), {}, ()), 60)
    await broker.ask(send(to="@qa"))
    for attempt in range(1, 6):
        answer = await receive.poll(poll_of("qa"))
        assert [message["attempt"] for message in decode(answer.body)["messages"]] == [attempt]
        assert answer.undelivered is not None
        answer.undelivered()


async def test_a_cancelled_poll_gives_back_what_it_was_given(broker):
    """Wherever the cancellation strikes: before the claim is committed, while parked, or as the message comes."""
    for turns in range(12):
        polling = asyncio.create_task(broker.poll("qa", 10, 30.0))
        sending = asyncio.create_task(broker.ask(send(to="@qa", task_id=f"t{turns}")))
        for _ in range(turns):
            await asyncio.sleep(0)
        polling.cancel()
        await asyncio.gather(polling, sending, return_exceptions=True)
        taken = [] if polling.cancelled() else polling.result().handed
        rest = taken or (await broker.poll("qa", 10, 30.0)).handed
        assert len(rest) == 1, f"after {turns} turns of the loop"
        await broker.ask(ack_of(rest))


def ack_of(handed):
    return Ack("qa", tuple(message.delivery_id for message in handed), {})


async def test_a_poll_during_the_stop_does_not_wait(broker):
    """It is answered with what there is."""
    await broker.close()
    assert (await asyncio.wait_for(broker.poll("qa", 10, 60.0), 5)).handed == []
    await broker.ask(send(to="@qa"))
    assert len((await broker.poll("qa", 10, 60.0)).handed) == 1


async def test_a_claim_that_is_parked_and_forgotten_holds_nothing(broker):
    """Its ticket is nobody's: what it is given comes back."""
    assert await broker.ask(Claim("qa", 10, 999_999, park=True)) is None
    await broker.ask(send(to="@qa"))
    (message,) = (await asyncio.wait_for(broker.poll("qa", 10, 30.0), 5)).handed
    assert message.attempt == 2


async def test_acks_and_the_poll_that_carries_them_are_one_commit(broker, monkeypatch):
    """One sync for both, and the acks first."""
    await broker.ask(send(to="@qa"))
    taken = (await broker.poll("qa", 10, 0.0)).handed
    groups, apply = [], broker._store.apply
    monkeypatch.setattr(broker._store, "apply", lambda group: groups.append(group) or apply(group))
    polled = await broker.poll("qa", 10, 0.0, acks=ack_of(taken))
    assert polled.acked == [message.delivery_id for message in taken]
    assert [[type(command) for command in group] for group in groups] == [[Ack, Claim]]
