"""One key is one message: what a sender repeats is not sent again, and what it changes is not swallowed.

A key that is looked at without its content loses the second message and calls it a success (nats-server#2921,
#5142; nats.rs#1142).
"""

import pytest

from tests.support.factories import new_key

X, Y = {"text": "X"}, {"text": "Y"}


@pytest.fixture
async def agents(near):
    """Who sends and who receives."""
    return [await near.client(agent) for agent in ("pm", "engineering", "qa")]


async def sent(client, to, key, payload, **fields):
    """Code, status, sequence and refusal of one send."""
    outcome = await client.send(to, idempotency_key=key, payload=payload, **fields)
    answer = outcome.get("answer", {})
    return outcome["code"], answer.get("status"), answer.get("channel_sequence_id"), outcome.get("problem", {})


async def test_the_same_send_is_one_message(agents):
    """The first answer comes again, marked: same place, nothing more is delivered."""
    pm, _, qa = agents
    key = new_key()
    first = await pm.send("@qa", idempotency_key=key, payload=X)
    again = await pm.send("@qa", idempotency_key=key, payload=X)
    assert (first["code"], again["code"]) == (201, 200)
    assert (first["answer"].pop("status"), again["answer"].pop("status")) == ("accepted", "duplicate")
    assert first["answer"] == again["answer"]
    assert len(await qa.poll()) == 1


async def test_the_same_key_with_another_body_is_refused(agents):
    """It names the key's first use; what is stored and delivered is the first body."""
    pm, _, qa = agents
    key = new_key()
    await pm.send("@qa", idempotency_key=key, payload=X)
    code, _, _, problem = await sent(pm, "@qa", key, Y)
    assert (code, problem["type"], problem["field"], problem["retryable"]) == (
        422, "idempotency-conflict", "/idempotency_key", False,
    )  # fmt: skip
    assert "@qa 1" in problem["detail"]
    (handed,) = await qa.poll()
    assert handed["envelope"]["payload"] == X
    assert (await qa.read("@qa", 1)).document["last"] == 1


@pytest.mark.parametrize(
    "other",
    [{"to": "@growth"}, {"to": "product"}, {"task_id": "t"}, {"type": "finding/1"}, {"thread_id": "t"}],
    ids=lambda change: next(iter(change)),
)
async def test_the_key_is_for_the_whole_content(agents, other):
    """Another channel, task, thread or contract is other content: refused, and nowhere delivered."""
    pm, _, qa = agents
    key, payload = new_key(), {"text": "X", "summary": "s", "severity": "minor"}
    await pm.send("@qa", idempotency_key=key, payload=payload)
    code, _, _, problem = await sent(pm, key=key, payload=payload, **{"to": "@qa"} | other)
    assert (code, problem["type"]) == (422, "idempotency-conflict"), problem
    assert len(await qa.poll()) == 1


async def test_the_same_key_of_another_sender_is_another_message(agents):
    """A key's scope is its sender."""
    pm, engineering, qa = agents
    key = new_key()
    assert (await sent(pm, "@qa", key, X))[:3] == (201, "accepted", 1)
    assert (await sent(engineering, "@qa", key, Y))[:3] == (201, "accepted", 2)
    assert [handed["envelope"]["payload"] for handed in await qa.poll()] == [X, Y]


@pytest.mark.parametrize("end", ["ack", "refuse"])
async def test_a_key_stays_used_after_its_message_is_settled(agents, end):
    """Acked or dead, the same send is a duplicate that tells so, and another body a conflict."""
    pm, _, qa = agents
    key = new_key()
    await pm.send("@qa", idempotency_key=key, payload=X)
    (handed,) = await qa.poll()
    await (qa.ack(handed["delivery_id"]) if end == "ack" else qa.nack(handed["delivery_id"], "refuse"))
    again = await pm.send("@qa", idempotency_key=key, payload=X)
    assert (again["code"], again["answer"]["recipients"][0]["status"]) == (200, "acked" if end == "ack" else "dead")
    assert (await sent(pm, "@qa", key, Y))[0] == 422
    assert await qa.poll() == []


async def test_a_key_stays_used_after_a_kill(link):
    """What was answered before `kill -9` is a duplicate after it."""
    pm, key = await link.client("pm"), new_key()
    assert (await sent(pm, "@qa", key, X))[:3] == (201, "accepted", 1)
    link.kill9_adapter()
    await link.start_adapter()
    pm = await link.client("pm")
    assert (await sent(pm, "@qa", key, X))[:3] == (200, "duplicate", 1)
    assert (await sent(pm, "@qa", key, Y))[0] == 422
    assert link.violations() == []
