"""When the disk fails, when the process is told to stop, when it is killed, and when there are two."""

import asyncio
import contextlib
import random
import time
from contextlib import closing

import aiohttp

from shared.config import EXIT_CONFIGURATION
from tests.support.deployment import ServerProcess, health, until
from tests.support.disks import full_disk
from tests.support.factories import AGENTS
from tests.support.invariant import read_store
from tests.support.store_hand import holding

STOP_SECONDS_MAX = 3.0


def wal(link):
    return link.config.adapter_store.with_name("store.db-wal")


async def became(link, status):
    async def asked():
        return (await health(link.config.adapter_socket))[0] == status

    await until(asked, f"health says {status}")


async def test_a_full_disk_refuses_sends_and_heals_by_itself(link):
    """503 and not ready while it lasts; then memory is what the disk says, and nothing is missing (neotoma#2281)."""
    pm, qa = await link.client("pm"), await link.client("qa")
    first = pm.envelope("@qa", payload={"n": 1})
    (outcome,) = await pm.submit(first)
    link.history.sent("pm", first, outcome["code"], outcome["answer"])
    (held,) = await qa.poll()
    lost = pm.envelope("@qa", payload={"n": 2})
    with full_disk(link.adapter):
        answer = await pm.call("POST", "/link/v1/messages", {"envelopes": [lost]})
        assert (answer.status, answer.document["type"]) == (503, "store-unavailable")
        assert answer.document["retryable"] is True
        assert int(answer.headers["Retry-After"]) >= 1
        await became(link, 503)
        status, document = await health(link.config.adapter_socket)
        assert (status, document["status"]) == (503, "not-ready")
        assert document["reason"]
        for refused in (await qa.ack(held["delivery_id"]), await qa.read("@qa", 1)):
            assert (refused.status, refused.document["type"]) == (503, "store-unavailable")
        assert (await pm.call("GET", "/health/live")).status == 200
    await became(link, 200)
    assert (await qa.ack(held["delivery_id"])).status == 200
    (outcome,) = await pm.submit(lost)
    link.history.sent("pm", lost, outcome["code"], outcome["answer"])
    assert (outcome["code"], outcome["answer"]["channel_sequence_id"]) == (201, 2)
    (message,) = await qa.poll()
    assert message["envelope"]["payload"] == {"n": 2}
    assert link.violations() == []


async def test_a_parked_poll_survives_a_full_disk(link):
    """It is answered empty, asks again, and gets what comes later."""
    pm, qa = await link.client("pm"), await link.client("qa")
    with closing(link.connect(qa.request_bytes("POST", "/link/v1/poll", {"wait": 60}))) as parked:
        for _ in range(3):  # each is committed after what had come before it, the poll among them
            await pm.send("@pm")
        with full_disk(link.adapter):
            await pm.call("POST", "/link/v1/messages", {"envelopes": [pm.envelope("@pm")]})
            answer = await asyncio.to_thread(parked.recv, 65_536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b'{"messages":[]}')
            await became(link, 503)
    await became(link, 200)
    polling = asyncio.create_task(qa.poll(wait=60))
    await pm.send("@qa")
    assert len(await asyncio.wait_for(polling, 10)) == 1


async def test_leases_lapse_after_a_restart_though_nobody_asks(start):
    """The first deadline after a start is kept without any request to remind of it."""
    link = await start(lease_seconds=0.2)
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@qa")
    assert len(await qa.poll()) == 1
    link.kill9_adapter()
    await link.start_adapter()
    await until(lambda: read_store(link.config.adapter_store).census()["queued"] == 1, "the lease lapsed")


async def test_a_store_locked_by_another_process_is_trouble_that_passes(link):
    """Busy is not corrupt (codebase-memory-mcp#1206): nothing is renamed, and it serves again when the lock is gone."""
    pm = await link.client("pm")
    await pm.send("@qa")
    inode = link.config.adapter_store.stat().st_ino
    with holding(link.config.adapter_store):
        answer = await pm.call("POST", "/link/v1/messages", {"envelopes": [pm.envelope("@qa")]})
        assert (answer.status, answer.document["type"]) == (503, "store-unavailable")
        await became(link, 503)
    await became(link, 200)
    assert (await pm.send("@qa"))["answer"]["channel_sequence_id"] == 2
    assert link.config.adapter_store.stat().st_ino == inode


async def test_a_store_that_cannot_be_opened_is_not_ready_and_not_replaced(link):
    """The process ends as for any fault of the configuration, and once the way is free it starts with what was kept."""
    await link.adapter.stop()
    store = link.config.adapter_store
    kept = store.rename(store.with_name("kept"))
    store.mkdir()
    refused = await link.start_adapter(wait=False)
    assert await refused.ended() == EXIT_CONFIGURATION
    assert "directory" in refused.log()
    store.rmdir()
    kept.rename(store)
    await link.start_adapter()


async def test_a_stop_in_the_middle_of_trouble_is_a_clean_stop(link):
    """A full disk keeps no process alive. Here its log is a file, which takes nothing either: Python then ends with 120
    where it still has a line to write."""
    pm = await link.client("pm")
    await pm.send("@qa")
    with full_disk(link.adapter):
        await pm.call("POST", "/link/v1/messages", {"envelopes": [pm.envelope("@qa")]})
        await became(link, 503)
        assert await link.adapter.stop(STOP_SECONDS_MAX + 2) in {0, 120}
    assert not link.config.adapter_socket.exists()


async def test_a_stop_answers_polls_and_loses_no_send(link):
    """Seven polls open, fifty sends in flight: every 2xx is on disk, and it ends in three seconds (aiohttp#3638)."""
    clients = {agent: await link.client(agent) for agent in AGENTS}
    pm = clients["pm"]
    receivers = [clients[agent] for agent in ("orchestrator", "research", "growth", "qa", "engineering", "pm", "qa")]
    polls = [asyncio.create_task(client.poll(wait=60)) for client in receivers]
    await pm.send("@pm")
    sends = [asyncio.create_task(noted_send(link, clients[AGENTS[n % 6]], n)) for n in range(50)]
    await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    started = time.monotonic()
    assert await link.adapter.stop(STOP_SECONDS_MAX + 5) == 0
    assert time.monotonic() - started < STOP_SECONDS_MAX
    await asyncio.gather(*sends)
    for outcome in await asyncio.gather(*polls, return_exceptions=True):
        assert isinstance(outcome, list | aiohttp.ClientError), outcome
    assert not link.config.adapter_socket.exists()
    assert not wal(link).exists() or wal(link).stat().st_size == 0
    assert link.history.acked
    assert link.violations() == []


async def noted_send(link, client, number):
    envelope = client.envelope("product", payload={"n": number})
    try:
        (outcome,) = await client.submit(envelope)
    except (aiohttp.ClientError, AssertionError):
        return  # its outcome is unknown
    link.history.sent(client.agent, envelope, outcome["code"], outcome.get("answer", {}))


async def test_senders_that_vanish_leave_no_transaction_open(link):
    """Three hundred requests, each cut off within twenty milliseconds; then a plain send is quick (aiosqlite#259)."""
    pm, rng = await link.client("pm"), random.Random(3)

    async def vanish(number):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rng.random() * 0.02):
                await noted_send(link, pm, number)

    await asyncio.gather(*(vanish(number) for number in range(300)))
    started = time.monotonic()
    assert (await pm.send("@qa"))["code"] == 201
    assert time.monotonic() - started < 2
    assert link.violations() == []


async def test_a_second_adapter_on_the_same_store_is_refused(link):
    """It names the holder and exits as a configuration error; the first serves on (mcp_agent_mail#123)."""
    pm = await link.client("pm")
    first = link.adapter
    environment = {"RUNTIME_DIRECTORY": str(link.folder / "elsewhere")}
    second = ServerProcess(["adapter", "--config", str(link.config_path)], link.folder / "second.log", environment)
    assert await second.ended() == EXIT_CONFIGURATION
    assert str(first.pid) in second.log()
    assert (await pm.send("@qa"))["code"] == 201


async def test_a_kill_loses_nothing_that_was_acknowledged(link):
    """Leases persist with their tokens, keys are remembered, sequences go on; in three rounds (promise 10)."""
    clients = {agent: await link.client(agent) for agent in AGENTS}
    qa = clients["qa"]
    for number in range(3):
        sends = [asyncio.create_task(noted_send(link, clients[AGENTS[n % 6]], n)) for n in range(40)]
        await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        messages = await qa.poll()
        link.history.received("qa", messages)
        parked = asyncio.create_task(clients["growth"].call("POST", "/link/v1/poll", {"wait": 60, "max": 1}))
        link.kill9_adapter()
        await asyncio.gather(*sends, parked, return_exceptions=True)
        started = time.monotonic()
        await link.start_adapter()
        assert time.monotonic() - started < 10, f"round {number}"
        if messages:
            assert (await qa.ack(*(m["delivery_id"] for m in messages))).status == 200
    assert link.violations() == []
    again = [send for send in link.history.acked if send.sender == "pm"]
    outcomes = await clients["pm"].submit(*(dict(send.content) for send in again[:50]))
    assert {outcome["code"] for outcome in outcomes} == {200}
    assert [o["answer"]["channel_sequence_id"] for o in outcomes] == [send.sequence for send in again[:50]]
    assert read_store(link.config.adapter_store).census()["queued"] > 0
