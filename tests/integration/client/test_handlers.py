"""The handler form: what becomes of a message, and how a run begins and ends."""

import asyncio
import threading

import pytest

from multiclaw import Agent, Refuse
from tests.integration.client.harness import running
from tests.support.fake_sidecar import Fails, LosesAnswer, envelope


async def test_returning_acks_with_the_result(agent, sidecar):
    """Async and plain functions are called by type; what they return is the result of the ack."""
    on_loop = []

    @agent.on("task.assign/1")
    async def assign(message):
        on_loop.append(threading.current_thread() is threading.main_thread())
        return {"did": message.payload["n"]}

    @agent.on("*")
    def rest(message):
        on_loop.append(threading.current_thread() is threading.main_thread())

    sidecar.queue(envelope(1, type="task.assign/1"), envelope(2, type="note/1"))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert sidecar.acked == [(1, {"did": 1}), (2, None)]
    assert on_loop == [True, False]


async def test_raising_fails_and_gives_back_what_follows(agent, sidecar):
    """A failed message is nacked with its reason; later ones of its order are given back unseen, others run."""
    seen = []

    @agent.on("note/1")
    async def note(message):
        seen.append(message.sequence)
        if seen == [1]:
            raise ValueError("x" * 3_000)

    sidecar.queue(*(envelope(n, task_id=t) for n, t in ((1, "a"), (2, "a"), (3, "b"), (4, "a"))))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 4)
    assert seen[:3] == [1, 3, 1]
    assert seen[3:] == [2, 4]
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(4, "release"), (2, "release"), (1, "fail")]
    assert sidecar.nacked[-1][2] == ("ValueError: " + "x" * 3_000)[:1_000]


async def test_refusing_is_final_and_lets_the_next_pass(agent, sidecar):
    """`Refuse` nacks for good with its reason; the later ones of its order go on."""

    @agent.on("note/1")
    async def note(message):
        if message.sequence == 1:
            raise Refuse("not mine")

    sidecar.queue(envelope(1), envelope(2))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 1)
    assert sidecar.nacked == [(1, "refuse", "not mine")]
    assert sidecar.acked == [(2, None)]


async def test_a_type_without_a_handler_is_refused(agent, sidecar):
    """What nobody handles is refused, and the reason says so."""

    @agent.on("note/1")
    async def note(message):
        pass

    sidecar.queue(envelope(1, type="other/1"))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.nacked) == 1)
    assert sidecar.nacked == [(1, "refuse", "qa has no handler for 'other/1'")]


@pytest.mark.parametrize("raises", [False, True])
async def test_a_handler_may_settle_by_itself(agent, sidecar, raises):
    """A handler that acks or nacks is taken at its word, also when it raises then; a nack stops its order."""
    seen = []

    @agent.on("*")
    async def handle(message):
        seen.append(message.sequence)
        if len(seen) == 1:
            await message.nack("release")
            if raises:
                raise ValueError("after all")
            return None
        await message.ack("mine")
        return "not this"

    sidecar.queue(envelope(1), envelope(2))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert seen == [1, 1, 2]
    assert sidecar.acked == [(1, "mine"), (2, "mine")]


async def test_a_result_that_cannot_be_kept_does_not_cost_the_ack(agent, sidecar):
    """What is not JSON, or is refused, is left out, and the message is acked."""

    @agent.on("*")
    async def handle(message):
        return object() if message.sequence == 1 else "large"

    sidecar.queue(envelope(1), envelope(2))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
        for path in ("/v1/messages/receive", "/v1/messages/ack"):
            sidecar.fail(path, Fails(413, "message-too-large", retryable=False))
        sidecar.queue(envelope(3))
        await sidecar.until(lambda: len(sidecar.acked) == 3)
    assert sidecar.acked[0] == (1, None)
    assert sidecar.acked[1:] == [(2, "large"), (3, None)]


async def test_an_ack_outlives_a_restart(agent, sidecar):
    """A handler that ended while the sidecar was down is acked when it is back, not run again."""
    seen, stopped = [], asyncio.Event()

    @agent.on("*")
    async def handle(message):
        seen.append(message.sequence)
        await sidecar.stop()
        stopped.set()

    sidecar.fail("/v1/messages/ack", LosesAnswer())
    sidecar.queue(envelope(1))
    async with running(agent):
        await asyncio.wait_for(stopped.wait(), 5)
        await sidecar.start()
        await sidecar.until(lambda: len(sidecar.acked) == 1)
    assert seen == [1]


async def test_stopping_lets_the_running_end_and_gives_back_the_rest(agent, sidecar):
    """After `stop`, the running handler ends and is acked; what waited is given back; `run` returns."""
    working, go_on = asyncio.Event(), asyncio.Event()

    @agent.on("*")
    async def handle(message):
        working.set()
        await go_on.wait()

    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2, 3)))
    run = asyncio.create_task(agent.run(wait=1))
    await asyncio.wait_for(working.wait(), 5)
    agent.stop()
    await sidecar.until(lambda: len(sidecar.nacked) == 2)
    assert not run.done()
    go_on.set()
    await asyncio.wait_for(run, 5)
    assert sidecar.acked == [(1, None)]
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(3, "release"), (2, "release")]


async def test_stopping_ends_a_long_poll(agent, sidecar):
    """`stop` does not wait for the poll to come back, and `run` can begin again."""

    @agent.on("*")
    async def handle(message):
        pass

    for calls in (1, 2):
        run = asyncio.create_task(agent.run(wait=30))
        await sidecar.until(lambda calls=calls: len(sidecar.calls) == calls)
        agent.stop()
        done, _ = await asyncio.wait({run}, timeout=2)
        run.cancel()  # one that goes on must not hold up the end of the test
        assert done == {run}
        await run


async def test_cancelling_gives_everything_back(agent, sidecar):
    """A cancelled `run` cancels its async handlers and gives back what they held and what waited."""
    working = asyncio.Event()

    @agent.on("*")
    async def handle(message):
        working.set()
        await asyncio.Event().wait()

    sidecar.queue(envelope(1), envelope(2), envelope(3, task_id="b"))
    run = asyncio.create_task(agent.run(wait=1))
    await asyncio.wait_for(working.wait(), 5)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert {mode for _, mode, _ in sidecar.nacked} == {"release"}
    assert [held.token for held in sidecar.live] == [None, None, None]


async def test_a_thread_is_waited_for(agent, sidecar):
    """A plain handler cannot be interrupted: a cancelled `run` waits for it, and its result counts."""
    working, go_on = threading.Event(), threading.Event()

    @agent.on("*")
    def handle(message):
        working.set()
        go_on.wait(5)
        return "finished"

    sidecar.queue(envelope(1))
    run = asyncio.create_task(agent.run(wait=1))
    assert await asyncio.to_thread(working.wait, 5)
    run.cancel()
    done, _ = await asyncio.wait({run}, timeout=0.1)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert sidecar.acked == [(1, "finished")]


async def test_leaving_the_block_stops_a_run(sidecar):
    """The agent's end gives back what waits, then waits for the handler that runs, and its ack still leaves."""
    working = asyncio.Event()
    async with asyncio.timeout(5), Agent("qa", socket=sidecar.path) as agent:

        @agent.on("*")
        async def handle(message):
            working.set()
            await sidecar.until(lambda: len(sidecar.nacked) == 1)  # the block is being left

        sidecar.queue(envelope(1), envelope(2, task_id="b"))
        run = asyncio.create_task(agent.run(wait=1))
        await asyncio.wait_for(working.wait(), 5)
    assert sidecar.acked == [(1, None)]
    assert sidecar.nacked == [(2, "release", None)]
    await asyncio.wait_for(run, 1)


async def test_run_opens_the_agent(sidecar):
    """`run` alone is enough for a program, more than once."""
    agent = Agent("qa", socket=sidecar.path)

    @agent.on("*")
    async def handle(message):
        agent.stop()

    for sequence in (1, 2):
        sidecar.queue(envelope(sequence))
        await asyncio.wait_for(agent.run(wait=1), 5)
    assert [n for n, _ in sidecar.acked] == [1, 2]


async def test_a_refused_poll_ends_the_run(agent, sidecar):
    """What no later poll can mend is raised by `run`."""

    @agent.on("*")
    async def handle(message):
        pass

    sidecar.fail("/v1/messages", Fails(401, "unauthenticated", retryable=False))
    with pytest.raises(Exception, match="unauthenticated"):
        await asyncio.wait_for(agent.run(wait=1), 5)


async def test_mistakes_in_registering_are_said(agent):
    """No handler, two for a type, and no type at all are clear errors."""
    with pytest.raises(RuntimeError, match="there is no handler"):
        await agent.run()
    agent.on("note/1")(print)
    with pytest.raises(ValueError, match="has a handler already"):
        agent.on("note/1")(print)
    with pytest.raises(ValueError, match="name the types"):
        agent.on()(print)
    with pytest.raises(ValueError, match="concurrency"):
        await agent.run(concurrency=0)
