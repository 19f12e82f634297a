"""Hand-overs whose answer never reached the sidecar, and requests in which one message must be tried again."""

from shared.link import POLL_PATH


async def test_a_lost_poll_gives_back_at_once(link):
    """What was handed to a poll named as lost comes again at once and free, and nothing else is touched."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    first = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1, "poll": "aaaaaaaa"})
    await pm.send("@qa", task_id="other")
    kept = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1, "poll": "bbbbbbbb"})
    answer = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 10, "poll": "cccccccc", "lost": ["aaaaaaaa"]})
    (again,) = answer.document["messages"]
    (original,) = first.document["messages"]
    assert again["envelope"] == original["envelope"]
    assert (again["attempt"], again["redelivered"]) == (2, True)
    assert (await qa.ack(original["delivery_id"])).status == 409
    assert (await qa.ack(kept.document["messages"][0]["delivery_id"], again["delivery_id"])).status == 200


async def test_a_lost_poll_is_known_after_a_restart(link):
    """The poll's name is part of the stored tokens, so a restarted adapter recognises it."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1, "poll": "aaaaaaaa"})
    link.kill9_adapter()
    await link.start_adapter()
    assert await qa.poll() == []
    answer = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1, "lost": ["aaaaaaaa"]})
    assert [message["attempt"] for message in answer.document["messages"]] == [2]


async def test_nothing_overtakes_what_must_be_tried_again(start):
    """After a message that a full queue turned away, the rest of its request is held back; before it, not."""
    link = await start(queue_max=1, queue_critical_reserve=0)
    orchestrator = await link.client("orchestrator")
    fill, first, start_x, cancel_x = (
        orchestrator.envelope("@qa", type="governance.directive/1", payload={"directive": "x"}),
        orchestrator.envelope("@growth"),
        orchestrator.envelope("@qa", type="governance.directive/1", payload={"directive": "start"}),
        orchestrator.envelope("@growth", type="governance.directive/1", payload={"directive": "cancel"}),
    )
    assert [outcome["code"] for outcome in await orchestrator.submit(fill)] == [201]
    outcomes = await orchestrator.submit(first, start_x, cancel_x)
    assert [outcome["code"] for outcome in outcomes] == [201, 429, 424]
    assert [outcomes[1]["problem"]["type"], outcomes[2]["problem"]["type"]] == ["queue-full", "held-back"]
    assert outcomes[2]["problem"]["retryable"] is True
    growth = await link.client("growth")
    assert [message["envelope"]["idempotency_key"] for message in await growth.poll()] == [first["idempotency_key"]]
