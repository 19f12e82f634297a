"""Long-polls: no lost wake-up, and a client that went away holds nothing and spends nothing (promise 8, redis#949)."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.deployment import until
from tests.support.invariant import read_store
from tests.support.store_hand import reading

POLL = "/link/v1/poll"
CONNECTED = "03"


def connections(link):
    """Connections that the adapter has accepted and not closed: the kernel shows them under its socket's path."""
    rows = (line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines())
    path = str(link.config.adapter_socket)
    return sum(len(row) == 8 and row[7] == path and row[5] == CONNECTED for row in rows)


def failures(link):
    """Attempts that were spent, of all deliveries."""
    with reading(link.config.adapter_store) as connection:
        return connection.execute("SELECT sum(failures) FROM deliveries").fetchone()[0]


async def test_a_send_wakes_a_poll_at_once(link):
    """Many times sooner than its wait would end."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await until(lambda: connections(link) == 0, "nobody is connected")
    polling = asyncio.create_task(qa.poll(wait=60))
    await until(lambda: connections(link) == 1, "the poll is connected")
    started = time.monotonic()
    await pm.send("@qa")
    assert len(await polling) == 1
    assert time.monotonic() - started < 5


async def test_an_idle_poll_ends_empty_when_its_wait_is_over(link):
    """Not before, and not much later."""
    qa = await link.client("qa")
    started = time.monotonic()
    assert await qa.poll(wait=0.3) == []
    assert 0.3 <= time.monotonic() - started < 5


async def test_no_wake_up_is_lost(link):
    """A poll and a send set off within two milliseconds of each other, three hundred times over."""
    pm, qa = await link.client("pm"), await link.client("qa")
    rng = random.Random(1)
    for number in range(300):
        polling = asyncio.create_task(qa.poll(wait=30, count=1))
        await asyncio.sleep(rng.random() * 0.002)
        await pm.send("@qa", payload={"n": number})
        (message,) = await asyncio.wait_for(polling, 5)
        assert message["envelope"]["payload"]["n"] == number
        await qa.ack(message["delivery_id"])


async def test_polls_that_end_while_messages_come_lose_none(link):
    """Waits of one or two milliseconds race with sends; each message arrives once, in order."""
    pm, qa = await link.client("pm"), await link.client("qa")
    rng = random.Random(2)
    total = 200
    got = []

    async def receive():
        while len(got) < total:
            for message in await qa.poll(wait=rng.random() * 0.003, count=rng.randint(1, 4)):
                got.append(message["envelope"]["payload"]["n"])
                assert message["attempt"] == 1
                await qa.ack(message["delivery_id"])

    async def send():
        for number in range(total):
            await asyncio.sleep(rng.random() * 0.006)  # so that polls end empty, and while a send is on its way
            await pm.send("@qa", payload={"n": number})

    await asyncio.wait_for(asyncio.gather(receive(), send()), 60)
    assert got == list(range(total))


async def test_several_polls_of_one_agent_share_its_messages(link):
    """Each message goes to one of them."""
    pm, qa = await link.client("pm"), await link.client("qa")
    polls = [asyncio.create_task(qa.poll(wait=20, count=1)) for _ in range(5)]
    await pm.submit(*(pm.envelope("@qa", task_id=f"t{n}") for n in range(5)))
    taken = [message["envelope"]["task_id"] for messages in await asyncio.gather(*polls) for message in messages]
    assert sorted(taken) == [f"t{n}" for n in range(5)]


@pytest.mark.parametrize("ending", ["close", "half-close"])
async def test_a_hundred_ghost_polls_spend_nothing(link, ending):
    """Each asks for a message and is gone before it is answered; the message is still there, and alive."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa", payload={"text": "still here"})
    request = qa.request_bytes("POST", POLL, {"wait": 0, "max": 10})
    for _ in range(100):
        ghost = link.connect(request)
        if ending == "half-close":
            ghost.shutdown(socket.SHUT_WR)
        ghost.close()
    await until(lambda: connections(link) <= 1, "the ghosts' connections are closed")
    (message,) = await qa.poll(wait=5)
    assert message["envelope"]["payload"]["text"] == "still here"
    assert 1 <= message["attempt"] <= 101
    assert message["redelivered"] is (message["attempt"] > 1)
    await qa.ack(message["delivery_id"])
    assert read_store(link.config.adapter_store).census() == {"acked": 1}
    assert failures(link) == 0


@pytest.mark.parametrize("ending", ["close", "half-close", "sigkill"])
async def test_a_parked_poll_whose_client_is_gone_takes_nothing(link, ending):
    """A message that comes afterwards is there at once for whoever asks next, and no attempt is spent."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await until(lambda: connections(link) == 0, "nobody is connected")
    request = qa.request_bytes("POST", POLL, {"wait": 60, "max": 10})
    end = park(link, request, ending)
    await until(lambda: connections(link) == 1, "the poll is connected")
    end()
    await until(lambda: connections(link) == 0, "its connection is closed")
    await pm.send("@qa")
    (message,) = await qa.poll(wait=5)
    assert message["attempt"] <= 2  # it may have come while the adapter was still hearing of the end
    assert failures(link) == 0


def park(link, request, ending):
    """Send the request and stay; what ends it is given back."""
    if ending == "sigkill":
        program = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "s.sendall(bytes.fromhex(sys.argv[2])); s.recv(1)"
        )
        arguments = [sys.executable, "-c", program, str(link.config.adapter_socket), request.hex()]
        process = subprocess.Popen(arguments)  # noqa: S603 - our own program
        return lambda: (process.kill(), process.wait())
    ghost = link.connect(request)
    return ghost.close if ending == "close" else lambda: (ghost.shutdown(socket.SHUT_WR), ghost.recv(1), ghost.close())


async def test_a_poll_whose_answer_was_lost_is_named_by_the_next(link):
    """The answer reached the socket and no reader: only the receiver can know, and it gets the message at once."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    ghost = link.connect(qa.request_bytes("POST", POLL, {"wait": 0, "max": 10, "poll": "abcdef01"}))
    await asyncio.to_thread(ghost.recv, 10)
    ghost.close()
    answer = await qa.call("POST", POLL, {"wait": 0, "poll": "abcdef02", "lost": ["abcdef01"]})
    (message,) = answer.document["messages"]
    assert message["attempt"] == 2


async def test_a_stopped_receiver_costs_one_attempt_and_no_more(start):
    """It took the message and says nothing: the lease lapses once, and the next poll has it alone."""
    link = await start(lease_seconds=0.3, retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.submit(*(pm.envelope("@qa", task_id=f"t{n}") for n in range(3)))
    assert len(await qa.poll()) == 3
    (alone,) = await qa.poll(wait=10)
    assert (alone["envelope"]["task_id"], alone["attempt"]) == ("t0", 2)


async def test_what_stands_in_one_line_waits_for_its_turn(link):
    """Promise 3 on the wire: another task flows past, the same one does not."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.submit(pm.envelope("@qa", task_id="x"), pm.envelope("product", task_id="x"), pm.envelope("@qa"))
    (first,) = await qa.poll(count=1)
    assert [m["envelope"].get("task_id") for m in await qa.poll()] == [None]
    await qa.ack(first["delivery_id"])
    assert [m["envelope"]["to"] for m in await qa.poll()] == ["product"]
