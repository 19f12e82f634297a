"""Acks that a poll carries: in the commit of the hand-over, before it, and never in the dark."""

import asyncio
import time

from shared.link import POLL_PATH

WAIT = 30


async def receive(client, acks, wait=0, count=10, results=None):
    """The answer to a poll that carries acks."""
    carried = {"delivery_ids": acks} | ({} if results is None else {"results": results})
    answer = await client.call("POST", POLL_PATH, {"wait": wait, "max": count, "acks": carried})
    assert answer.status == 200, answer.document
    return answer.document


async def depth(client):
    """Messages that wait for the agent of a client, or are in its hands."""
    return (await client.health()).document["queues"][client.agent]


async def test_what_waits_behind_an_acked_message_comes_with_the_same_answer(near):
    """The ack is first: a line whose head it takes away moves on at once."""
    pm, qa = await near.client("pm"), await near.client("qa")
    for number in range(2):
        await pm.send("@qa", task_id="t", payload={"n": number})
    (first,) = await qa.poll(count=1)
    assert await qa.poll() == []
    answer = await receive(qa, [first["delivery_id"]], results={first["delivery_id"]: {"done": True}})
    assert answer["acks"] == {"code": 200, "answer": {"acked": [first["delivery_id"]]}}
    assert [message["envelope"]["payload"] for message in answer["messages"]] == [{"n": 1}]


async def test_acks_do_not_wait_for_the_next_message(near):
    """They are committed before the poll is parked."""
    pm, qa = await near.client("pm"), await near.client("qa")
    await pm.send("@qa")
    (message,) = await qa.poll()
    polling = asyncio.create_task(receive(qa, [message["delivery_id"]], wait=WAIT))
    while await depth(qa):
        assert not polling.done()
    await pm.send("@qa")
    assert len((await polling)["messages"]) == 1


async def test_a_refused_ack_is_told_at_once(near):
    """Nothing is waited for: whoever polls must not believe for half a minute that it was taken. The others count."""
    pm, qa = await near.client("pm"), await near.client("qa")
    for number in range(2):
        await pm.send("@qa", task_id=f"t{number}")
    held, given_back = [message["delivery_id"] for message in await qa.poll()]
    await qa.nack(given_back, "fail")
    begun = time.monotonic()
    answer = await receive(qa, [held, given_back], wait=WAIT)
    assert time.monotonic() - begun < WAIT / 2
    assert answer["messages"] == []
    assert answer["acks"]["code"] == 409
    assert answer["acks"]["problem"].items() >= {"type": "stale-lease", "stale": [given_back], "acked": [held]}.items()


async def test_acks_that_cannot_be_read_refuse_the_poll(near):
    """As a whole: nothing is handed over by half a request."""
    pm, qa = await near.client("pm"), await near.client("qa")
    await pm.send("@qa")
    answer = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1, "acks": {"delivery_ids": []}})
    assert (answer.status, answer.document["type"]) == (422, "invalid-field")
    (message,) = await qa.poll()
    assert message["attempt"] == 1
