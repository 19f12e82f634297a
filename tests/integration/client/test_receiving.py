"""The explicit form: messages are yielded, and nothing is told of them but what the agent says."""

import asyncio
import gc

import pytest

from multiclaw import Agent, Gap, InvalidMessage, Refused, StaleLease
from tests.support.fake_sidecar import Answers, Fails, LosesAnswer, envelope


async def take(agent, count, **options):
    """The first messages of a stream that is then closed."""
    stream = agent.messages(wait=1, **options)
    try:
        return [await anext(stream) for _ in range(count)]
    finally:
        await stream.aclose()


async def test_messages_come_and_are_acked_only_by_word(agent, sidecar):
    """A yielded message stays leased until it is acked, and the ack carries its result."""
    sidecar.queue(envelope(1), envelope(2, task_id="t"))
    first, second = await take(agent, 2)
    assert (first.payload, first.attempt, first.redelivered) == ({"n": 1}, 1, False)
    assert sidecar.acked == []
    assert sidecar.nacked == []
    await first.ack()
    await second.ack({"done": True})
    assert sidecar.acked == [(1, None), (2, {"done": True})]


async def test_a_message_that_comes_later_ends_the_wait(agent, sidecar):
    """A long-poll is answered when there is something."""
    taking = asyncio.create_task(take(agent, 1))
    await sidecar.until(lambda: len(sidecar.calls) == 1)
    sidecar.queue(envelope(1))
    assert [message.sequence for message in await taking] == [1]
    assert len(sidecar.calls) == 1


async def test_leaving_gives_back_what_was_not_yielded(agent, sidecar):
    """After a close, the rest of the batch is released, and the yielded one is not."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in range(1, 5)))
    await take(agent, 1)
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(4, "release"), (3, "release"), (2, "release")]


async def test_breaking_out_gives_back_too(sidecar):
    """`break` needs no close: leaving the agent's block gives the rest back."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in range(1, 4)))
    async with Agent("qa", socket=sidecar.path) as agent:
        async for message in agent.messages(wait=1):
            await message.ack()
            break
    assert sorted(n for n, _, _ in sidecar.nacked) == [2, 3]
    gc.collect()


async def test_cancelling_gives_back_too(agent, sidecar):
    """A consumer that is cancelled in its work leaves nothing in its hands but the message it worked on."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in range(1, 4)))
    working = asyncio.Event()

    async def consume():
        async for _ in agent.messages(wait=1):
            working.set()
            await asyncio.Event().wait()

    consumer = asyncio.create_task(consume())
    await asyncio.wait_for(working.wait(), 5)
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    await sidecar.until(lambda: len(sidecar.nacked) == 2)
    assert sorted(n for n, _, _ in sidecar.nacked) == [2, 3]


async def test_polling_goes_on_through_failures(agent, sidecar):
    """Refusals that pass, faults, lost answers and a restart do not end the stream."""
    sidecar.fail("/v1/messages", Fails(), Fails(500, "internal", retryable=False), LosesAnswer())
    taking = asyncio.create_task(take(agent, 1))
    await sidecar.until(lambda: len(sidecar.calls) == 4)
    await sidecar.stop()
    await sidecar.start()
    sidecar.queue(envelope(1))
    assert [message.sequence for message in await taking] == [1]


@pytest.mark.parametrize("fault", [Fails(401, "unauthenticated", retryable=False), Answers(404, b"what?")])
async def test_a_refused_poll_ends_the_stream(agent, sidecar, fault):
    """What no later poll can mend is raised."""
    sidecar.fail("/v1/messages", fault)
    with pytest.raises((Refused, Exception), match=r"unauthenticated|is not a sidecar"):
        await take(agent, 1)


async def test_early_empty_answers_make_no_busy_loop(agent, sidecar):
    """A sidecar that answers long-polls at once and empty is not asked in a tight loop."""
    sidecar.fail("/v1/messages", *[Answers(200, b'{"messages":[],"gaps":[]}')] * 1_000)
    taking = asyncio.create_task(take(agent, 1))
    await asyncio.wait({taking}, timeout=0.5)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert len(sidecar.calls) < 60


async def test_waiting_messages_keep_their_leases(agent, sidecar):
    """While the first message is worked on for several leases, the others of its batch stay ours."""
    sidecar.lease_seconds = 0.6
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2)))
    stream = agent.messages(wait=1)
    first = await anext(stream)
    await first.extend(30)
    await sidecar.until(lambda: len([c for c in sidecar.calls if c.path.endswith("extend")]) >= 5)
    second = await anext(stream)
    await first.ack()
    await second.ack()
    await stream.aclose()
    assert [sequence for sequence, _ in sidecar.acked] == [1, 2]


async def test_a_message_whose_lease_was_lost_is_not_yielded(agent, sidecar):
    """What is being handed over again is skipped, and comes as its next attempt."""
    sidecar.lease_seconds = 0.6
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2, 3)))
    stream = agent.messages(wait=1)
    await (await anext(stream)).ack()
    sidecar.live[0].token = None
    await sidecar.until(lambda: ["t3"] in [body["delivery_ids"] for body in sidecar.bodies("/v1/messages/extend")])
    following = [await anext(stream), await anext(stream)]
    await stream.aclose()
    assert [(message.sequence, message.attempt) for message in following] == [(3, 1), (2, 2)]


async def test_what_follows_a_nacked_message_is_given_back(agent, sidecar):
    """After a failure, later ones of its order in the batch are not yielded; others are."""
    sidecar.queue(envelope(1, task_id="a"), envelope(2, task_id="a"), envelope(3, task_id="b"))
    stream = agent.messages(wait=1)
    first = await anext(stream)
    await first.nack("fail", "no")
    assert (await anext(stream)).sequence == 3
    await stream.aclose()
    assert sidecar.nacked[0] == (1, "fail", "no")
    again = await agent.poll()
    assert [message.sequence for message in again] == [1, 2]


async def test_a_stale_ack_says_so(agent, sidecar):
    """An ack under a lease that has ended raises, and an ack of another in the same request does not."""
    sidecar.queue(envelope(1, task_id="a"), envelope(2, task_id="b"))
    first, second = await agent.poll()
    sidecar.live[0].token = "other"  # noqa: S105 - a lease token
    outcomes = await asyncio.gather(first.ack(), second.ack(), return_exceptions=True)
    assert isinstance(outcomes[0], StaleLease)
    assert outcomes[1] is None
    assert (first.settled, second.settled) == (None, "ack")


async def test_acks_of_one_turn_leave_together(agent, sidecar):
    """Acks asked for at the same time are one request, up to 100 in each."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in range(1, 151)))
    messages = await agent.poll(max=150)
    await asyncio.gather(*(message.ack(message.sequence) for message in messages))
    assert [len(body["delivery_ids"]) for body in sidecar.bodies("/v1/messages/ack")] == [100, 50]
    assert sorted(sidecar.acked) == [(n, n) for n in range(1, 151)]


async def test_one_refused_ack_does_not_harm_the_others(agent, sidecar):
    """When a request of many acks is refused as a whole, each is told on its own."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2)))
    messages = await agent.poll()
    sidecar.fail("/v1/messages/ack", *[Fails(404, "unknown-delivery", retryable=False)] * 2)
    outcomes = await asyncio.gather(*(message.ack() for message in messages), return_exceptions=True)
    assert isinstance(outcomes[0], Refused)
    assert outcomes[1] is None


async def test_acks_and_nacks_outlive_a_lost_answer(agent, sidecar):
    """Telling it twice is harmless: the second attempt finds it settled, and that is success."""
    sidecar.queue(envelope(1, task_id="a"), envelope(2, task_id="b"))
    first, second = await agent.poll()
    sidecar.fail("/v1/messages/ack", LosesAnswer())
    sidecar.fail("/v1/messages/nack", LosesAnswer())
    await first.ack()
    await second.nack("refuse", "never")
    assert sidecar.acked == [(1, None)]
    assert sidecar.nacked == [(2, "refuse", "never")]
    with pytest.raises(StaleLease):
        await second.nack("release")


async def test_a_result_that_is_not_json_is_not_sent(agent, sidecar):
    """The message is not acked, and the caller may try with another result."""
    sidecar.queue(envelope(1))
    (message,) = await agent.poll()
    with pytest.raises(InvalidMessage, match="/result"):
        await message.ack(float("nan"))
    await message.ack("fine")
    assert sidecar.acked == [(1, "fine")]


async def test_gaps_are_told(sidecar):
    """Gaps are kept and handed to the hook; a hook that fails does not cost the messages of that poll."""
    heard = []

    def hear(gap):
        heard.append(gap)
        raise ValueError("a fault of the hook")

    sidecar.gaps = [{"channel": "product", "from": 47, "to": 48}]
    sidecar.queue(envelope(1))
    async with Agent("qa", socket=sidecar.path, on_gap=hear) as agent:
        assert len(await agent.poll()) == 1
        assert list(agent.gaps) == heard == [Gap("product", 47, 48)]


async def test_reading_follows_the_pages(agent, sidecar):
    """A range longer than a page arrives whole and in order."""
    sidecar.channel = [envelope(n, to="product") for n in range(1, 8)]
    messages = await agent.read("product", 2, 6)
    assert [message.sequence for message in messages] == [2, 3, 4, 5, 6]
    assert len(sidecar.calls) == 3


async def test_a_reply_reaches_the_sender(agent, sidecar):
    """`reply` sends to the sender, in the message's thread."""
    sidecar.queue(envelope(9, thread_id="th"))
    (message,) = await agent.poll()
    await message.reply("answer/1", {"ok": True})
    body = sidecar.bodies("/v1/messages")[0]
    assert (body["to"], body["thread_id"], body["reply_to_sequence_id"]) == ("@pm", "th", 9)
