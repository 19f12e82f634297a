"""The same client without `async`."""

import asyncio
import gc
import signal
import sys
import threading

import pytest

from multiclaw import Gap, InvalidMessage, Refuse, SyncAgent, Unavailable
from tests.support.fake_sidecar import LosesAnswer, envelope


async def in_thread(work):
    """Run blocking code beside the sidecar's loop."""
    return await asyncio.wait_for(asyncio.to_thread(work), 20)


async def test_sending_and_receiving(sidecar):
    """Sends, messages, acks, replies and reads work from plain code; leaving the loop gives the rest back."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2, 3)))
    sidecar.channel = [envelope(n, to="product") for n in (1, 2, 3)]
    sidecar.gaps = [{"channel": "product", "from": 1, "to": 2}]
    heard = []

    def work():
        def hear(gap):
            heard.append((gap, [m.sequence for m in agent.read(gap.channel, gap.first, gap.last)]))

        with SyncAgent("qa", socket=sidecar.path, on_gap=hear) as agent:
            for message in agent.messages(wait=1):
                message.reply("answer/1", message.payload)
                message.ack("done")
                break
            assert len(sidecar.nacked) == 2  # at once, not when the agent ends
            assert agent.health()["status"] == "ok"
            assert len(agent.send_many([{"to": "product", "type": "note/1", "payload": 1}])) == 1
            return agent.send("product", "note/1", 2)

    receipt = await in_thread(work)
    assert receipt.status == "accepted"
    assert sidecar.acked == [(1, "done")]
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(3, "release"), (2, "release")]
    assert heard == [(Gap("product", 1, 2), [1, 2])]


async def test_a_stream_that_is_left_open_ends_with_the_agent(sidecar):
    """What an unfinished iterator had not yielded is given back when the block ends; dropping it later is silent."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2)))

    def work():
        with SyncAgent("qa", socket=sidecar.path) as agent:
            stream = agent.messages(wait=1)
            next(stream)
        del stream
        gc.collect()

    await in_thread(work)
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(2, "release")]


async def test_the_guarantees_are_the_same(sidecar):
    """Retries keep the key, and what is not JSON never leaves."""
    sidecar.fail("/v1/messages", LosesAnswer())

    def work():
        with SyncAgent("qa", socket=sidecar.path) as agent:
            with pytest.raises(InvalidMessage):
                agent.send("product", "note/1", float("nan"))
            return agent.send("product", "note/1", 1)

    receipt = await in_thread(work)
    assert (receipt.status, len(sidecar.sent), len(sidecar.calls)) == ("duplicate", 1, 2)


async def test_handlers_may_call_the_agent(sidecar):
    """Handlers run in threads, get sync messages and can send; `stop` ends the run from any thread."""
    agent = SyncAgent("qa", socket=sidecar.path)

    @agent.on("note/1")
    def note(message):
        message.reply("answer/1", message.payload)
        return {"thread": threading.current_thread().name}

    @agent.on("*")
    def rest(message):
        agent.stop()
        raise Refuse("enough")

    sidecar.queue(envelope(1), envelope(2, type="other/1"))
    await in_thread(lambda: agent.run(wait=1))
    ((sequence, result),) = sidecar.acked
    assert sequence == 1
    assert result["thread"].startswith("multiclaw-qa")
    assert sidecar.nacked == [(2, "refuse", "enough")]
    assert len(sidecar.sent) == 1


_PROGRAM = """
import sys, time
from multiclaw import SyncAgent
agent = SyncAgent("qa", socket=sys.argv[1])
@agent.on("*")
def handle(message):
    agent.send("product", "note/1", "working")
    time.sleep(0.3)
    return "finished"
agent.run(wait=5)
"""


async def test_ctrl_c_ends_a_run_in_good_order(sidecar):
    """SIGINT lets the running handler end and acks it, gives back what waited, and ends the program."""
    sidecar.queue(*(envelope(n, task_id=f"t{n}") for n in (1, 2, 3)))
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, str(sidecar.path), stderr=asyncio.subprocess.PIPE
    )
    await sidecar.until(lambda: len(sidecar.sent) == 1)
    program.send_signal(signal.SIGINT)
    _, stderr = await asyncio.wait_for(program.communicate(), 10)
    assert b"KeyboardInterrupt" in stderr
    assert sidecar.acked == [(1, "finished")]
    assert [(n, mode) for n, mode, _ in sidecar.nacked] == [(3, "release"), (2, "release")]


_WAITING = """
import sys
from multiclaw import SyncAgent
with SyncAgent("qa", socket=sys.argv[1]) as agent:
    for message in agent.messages(wait=30):
        pass
"""


async def test_ctrl_c_ends_a_wait_for_messages(sidecar):
    """SIGINT interrupts a long-poll at once, and nothing but the interrupt is reported."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WAITING, str(sidecar.path), stderr=asyncio.subprocess.PIPE
    )
    await sidecar.until(lambda: len(sidecar.calls) == 1)
    program.send_signal(signal.SIGINT)
    _, stderr = await asyncio.wait_for(program.communicate(), 10)
    assert stderr.rstrip().endswith(b"KeyboardInterrupt")
    assert b"During handling" not in stderr


async def test_errors_and_threads_end_with_the_block(sidecar):
    """An exception passes through, no thread stays, and a closed agent says so."""
    await sidecar.stop()

    def work():
        agent = SyncAgent("qa", socket=sidecar.path, retry_seconds=0.1)
        with pytest.raises(Unavailable), agent:
            agent.send("product", "note/1", 1)
        with pytest.raises(RuntimeError, match="with SyncAgent"):
            agent.send("product", "note/1", 1)

    await in_thread(work)
    assert not [thread for thread in threading.enumerate() if thread.name == "multiclaw-qa"]
