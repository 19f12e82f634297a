"""A message's whole life through a real adapter: sent, handed over, acked, failed, dead, and read back."""

import asyncio

import pytest

from tests.support.deployment import until
from tests.support.factories import AGENTS
from tests.support.invariant import read_store

PAYLOAD = {"text": "ünïcode \U0001f600", "b": [1, 2.5, None, True], "a": {"z": 1, "y": 9007199254740991}}


@pytest.fixture
def link(near):
    """Most of what is asked here needs no process of its own."""
    return near


def wal_commits(path):
    """Commits in the write-ahead log: its frames whose header names the size of the database after them."""
    log = path.with_name(path.name + "-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    heads = (log[at : at + 24] for at in range(32, len(log) - 23, 24 + page))
    return sum(head[4:8] != bytes(4) and head[8:16] == log[16:24] for head in heads)


async def test_a_broadcast_lives_and_ends_for_each_recipient(link):
    """Every member gets the same bytes of content and settles them apart."""
    pm = await link.client("pm")
    envelope = pm.envelope("product", type="task.assign/1", payload=PAYLOAD, task_id="t1", thread_id="th")
    (outcome,) = await pm.submit(envelope)
    link.history.sent("pm", envelope, outcome["code"], outcome["answer"])
    assert outcome["code"] == 201
    assert [(r["agent"], r["status"]) for r in outcome["answer"]["recipients"]] == [(a, "queued") for a in AGENTS]
    for agent in AGENTS:
        client = await link.client(agent)
        (message,) = await client.poll()
        link.history.received(agent, [message])
        assert message["envelope"]["payload"] == PAYLOAD
        assert (message["attempt"], message["redelivered"], message["envelope"]["priority"]) == (1, False, "normal")
        result = {message["delivery_id"]: {"done": agent}}
        assert (await client.ack(message["delivery_id"], results=result)).status == 200
        link.history.apply(agent, message["envelope"])
    (again,) = await pm.submit(envelope)
    assert (again["code"], again["answer"]["status"]) == (200, "duplicate")
    assert {r["status"] for r in again["answer"]["recipients"]} == {"acked"}
    assert link.violations() == []


async def test_concurrent_sends_share_commits(link):
    """Three hundred sends that wait together need far fewer commits than that (group commit)."""
    clients = [await link.client(agent) for agent in AGENTS]
    await asyncio.gather(*(client.send("@qa") for client in clients))
    before = wal_commits(link.config.adapter_store)
    outcomes = await asyncio.gather(*(clients[n % 6].send("@growth") for n in range(300)))
    commits = wal_commits(link.config.adapter_store) - before
    assert {outcome["code"] for outcome in outcomes} == {201}
    assert 0 < commits < 150
    assert link.violations() == []


async def test_sends_of_one_request_keep_their_order(link):
    """Sequences follow the order of the envelopes, each with its own outcome."""
    pm = await link.client("pm")
    good = [pm.envelope("product", payload={"n": n}) for n in range(5)]
    outcomes = await pm.submit(*good[:3], pm.envelope("nowhere"), *good[3:], good[0])
    assert [o["code"] for o in outcomes] == [201, 201, 201, 422, 201, 201, 200]
    assert [o["answer"]["channel_sequence_id"] for o in outcomes if "answer" in o] == [1, 2, 3, 4, 5, 1]
    assert (outcomes[3]["problem"]["type"], outcomes[3]["problem"]["field"]) == ("unknown-recipient", "/to")


async def test_a_key_used_twice_for_two_things_is_a_conflict(link):
    """The stored message stands (nats-server#2921)."""
    pm, qa = await link.client("pm"), await link.client("qa")
    envelope = pm.envelope("@qa", payload={"text": "one"})
    other = pm.envelope("@qa", payload={"text": "two"}, idempotency_key=envelope["idempotency_key"])
    outcomes = await pm.submit(envelope, other)
    assert [o["code"] for o in outcomes] == [201, 422]
    assert outcomes[1]["problem"]["type"] == "idempotency-conflict"
    assert [m["envelope"]["payload"]["text"] for m in await qa.poll()] == ["one"]


async def test_a_lapsed_lease_is_handed_over_again(start):
    """To a poll that waits for it, with an honest count, and the late ack is refused (nats-server#4627, bull#308)."""
    link = await start(lease_seconds=0.2, retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa", payload={"text": "whole"})
    (first,) = await qa.poll()
    (second,) = await qa.poll(wait=10)
    assert (second["attempt"], second["redelivered"]) == (2, True)
    assert second["envelope"] == first["envelope"]
    assert (await qa.ack(second["delivery_id"])).status == 200
    late = await qa.ack(first["delivery_id"])
    assert (late.status, late.document["type"], late.document["stale"]) == (409, "stale-lease", [first["delivery_id"]])
    assert (await qa.ack(second["delivery_id"])).status == 200


async def test_a_late_ack_before_the_redelivery_is_refused(start):
    """The other order: the lease has lapsed, nobody has the message yet (bull#308)."""
    link = await start(lease_seconds=0.2, retry_base_seconds=30)
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    (first,) = await qa.poll()
    await until(lambda: read_store(link.config.adapter_store).census()["queued"] == 1, "the lease lapsed")
    assert (await qa.ack(first["delivery_id"])).status == 409
    assert (await qa.nack(first["delivery_id"])).status == 409
    assert (await qa.extend(first["delivery_id"])).status == 409
    assert read_store(link.config.adapter_store).census() == {"queued": 1}


async def test_an_extended_lease_does_not_lapse(start):
    """A slow receiver keeps its message as long as it says so."""
    link = await start(lease_seconds=0.2, retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    (message,) = await qa.poll()
    answer = await qa.extend(message["delivery_id"], seconds=60)
    assert answer.document["leases"][0]["lease_expires_at"] > message["lease_expires_at"]
    assert await qa.poll(wait=0.5) == []
    assert (await qa.ack(message["delivery_id"])).status == 200


async def test_three_failures_are_dead_and_touch_no_other_recipient(start):
    """The dead letter is there with the answer to the third nack (nats-server#4956)."""
    link = await start(retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    envelope = pm.envelope("product")
    await pm.submit(envelope)
    statuses = []
    for attempt in (1, 2, 3):
        (message,) = await qa.poll(wait=10)
        assert message["attempt"] == attempt
        statuses.append((await qa.nack(message["delivery_id"], "fail", "no luck")).document["status"])
        census = read_store(link.config.adapter_store).census()
    assert statuses == ["queued", "queued", "dead"]
    assert census == {"queued": 5, "dead": 1}
    (again,) = await pm.submit(envelope)
    told = {r["agent"]: (r["status"], r.get("reason")) for r in again["answer"]["recipients"]}
    assert told == dict.fromkeys(AGENTS, ("queued", None)) | {"qa": ("dead", "max-attempts")}
    assert await qa.poll() == []
    assert link.violations() == []


async def test_a_refused_message_is_dead_at_once(link):
    """With no attempt spent, and its line goes on."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.submit(pm.envelope("@qa"), pm.envelope("@qa"))
    first, second = await qa.poll()
    answer = await qa.nack(first["delivery_id"], "refuse", "cannot be right")
    assert answer.document == {"delivery_id": first["delivery_id"], "status": "dead"}
    assert (await qa.ack(second["delivery_id"])).status == 200


async def test_what_is_told_of_a_mixed_ack(link):
    """The fresh ones are acked, the stale ones named."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.submit(pm.envelope("@qa", task_id="a"), pm.envelope("@qa", task_id="b"))
    old, fresh = (m["delivery_id"] for m in await qa.poll())
    await qa.nack(old, "release")
    answer = await qa.ack(old, fresh)
    assert (answer.status, answer.document["stale"], answer.document["acked"]) == (409, [old], [fresh])
    assert (await qa.ack(fresh)).status == 200


async def test_deliveries_that_never_were_are_not_found(link):
    """Any number that fits the pattern, and the adapter serves on."""
    qa, pm = await link.client("qa"), await link.client("pm")
    for token in ("1.1.abc", "ffffffffffffffff.1.a", "7fffffffffffffff.1.a", "-1", "x" * 64):
        for answer in (await qa.ack(token), await qa.nack(token), await qa.extend(token)):
            assert (answer.status, answer.document["type"]) == (404, "unknown-delivery")
            assert answer.document["field"].startswith("/delivery_id")
    assert (await pm.send("@qa"))["code"] == 201
