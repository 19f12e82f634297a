"""The handler form: what runs beside what, in which order, and under which leases."""

import asyncio
import random
import threading

import pytest

from tests.integration.client.harness import running
from tests.support.fake_sidecar import Fails, FakeSidecar, LosesAnswer, LosesRequest, envelope


def _polls(sidecar: FakeSidecar) -> int:
    return sum(call.method == "GET" and call.path == "/v1/messages" for call in sidecar.calls)


async def test_one_at_a_time_by_default(agent, sidecar):
    """Without a word on concurrency, nothing runs beside anything, in the order of arrival."""
    active, most, order = 0, 0, []

    @agent.on("*")
    async def handle(message):
        nonlocal active, most
        active += 1
        most = max(most, active)
        await agent.health()  # a round trip to the sidecar: whatever else could begin, begins meanwhile
        order.append(message.sequence)
        active -= 1

    sidecar.queue(*(envelope(n, task_id=f"t{n % 3}") for n in range(1, 10)))
    async with running(agent, max=10):
        await sidecar.until(lambda: len(sidecar.acked) == 9)
    assert most == 1
    assert order == list(range(1, 10))


@pytest.mark.parametrize("plain", [False, True])
async def test_orders_run_beside_each_other(agent, sidecar, plain):
    """With a concurrency of 3, three orders run at once, each in its own order and one at a time."""
    together = threading.Barrier(3, timeout=5)
    async_together = asyncio.Barrier(3)
    seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    if plain:

        @agent.on("*")
        def handle(message):
            together.wait()
            seen[message.task_id].append(message.sequence)

    else:

        @agent.on("*")
        async def handle_async(message):
            await asyncio.wait_for(async_together.wait(), 5)
            seen[message.task_id].append(message.sequence)

    sidecar.queue(*(envelope(n, task_id="abc"[n % 3]) for n in range(1, 10)))
    async with running(agent, concurrency=3):
        await sidecar.until(lambda: len(sidecar.acked) == 9)
    assert all(len(numbers) == 3 and numbers == sorted(numbers) for numbers in seen.values())


async def test_idle_workers_poll_while_one_is_busy(agent, sidecar):
    """A long handler does not keep other orders waiting."""
    release = asyncio.Event()

    @agent.on("*")
    async def handle(message):
        if message.sequence == 1:
            await release.wait()

    sidecar.queue(envelope(1, task_id="a"))
    async with running(agent, concurrency=2):
        await sidecar.until(lambda: sidecar.live[0].token is not None)
        sidecar.queue(envelope(2, task_id="b"))
        await sidecar.until(lambda: sidecar.acked == [(2, None)])
        release.set()
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert sidecar.acked == [(2, None), (1, None)]


async def test_leases_are_kept_while_a_handler_runs_and_no_longer(agent, sidecar):
    """Running and waiting messages outlive many leases; afterwards nothing is extended."""
    sidecar.lease_seconds = 0.6
    seen = []

    @agent.on("*")
    async def handle(message):
        seen.append((message.sequence, message.attempt))
        if message.sequence == 1:
            wanted = len(sidecar.bodies("/v1/messages/extend")) + 5
            await sidecar.until(lambda: len(sidecar.bodies("/v1/messages/extend")) >= wanted)

    sidecar.queue(envelope(1), envelope(2))
    async with running(agent, wait=sidecar.lease_seconds):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
        assert seen == [(1, 1), (2, 1)]
        extended = sidecar.bodies("/v1/messages/extend")
        assert {tuple(body["delivery_ids"]) for body in extended} == {("t1", "t2")}
        assert all(0.3 < body["seconds"] <= 0.6 for body in extended)
        sidecar.lease_seconds = 30.0
        sidecar.queue(envelope(3))
        await sidecar.until(lambda: len(sidecar.acked) == 3)
        # A whole empty poll takes as long as the first lease, three intervals: anything still extending would show.
        polls = _polls(sidecar)
        await sidecar.until(lambda: _polls(sidecar) >= polls + 2)
        assert len(sidecar.bodies("/v1/messages/extend")) == len(extended)


async def test_a_lost_lease_is_not_worked_on(agent, sidecar):
    """A waiting message that was handed over again meanwhile is skipped; only its new hand-over runs."""
    sidecar.lease_seconds = 0.6
    seen = []

    @agent.on("*")
    async def handle(message):
        seen.append((message.sequence, message.attempt))
        if message.sequence == 1:
            sidecar.live[1].token = None
            await sidecar.until(lambda: len(sidecar.bodies("/v1/messages/extend")) >= 2)

    sidecar.queue(envelope(1, task_id="a"), envelope(2, task_id="b"))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert seen == [(1, 1), (2, 2)]


async def test_a_failed_ack_stops_its_order(agent, sidecar):
    """When the ack is refused as stale, the later ones of that order are given back: they must not overtake it."""
    seen = []

    @agent.on("*")
    async def handle(message):
        seen.append(message.sequence)
        if len(seen) == 1:
            sidecar.live[0].token = None

    sidecar.queue(envelope(1), envelope(2))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert seen == [1, 1, 2]


@pytest.mark.parametrize("seed", range(6))
async def test_no_message_overtakes_whatever_fails(agent, sidecar, seed):
    """Handlers fail, answers are lost, leases lapse: none begins before all earlier of its order are acked."""
    chance = random.Random(seed)
    sidecar.lease_seconds = 2.0
    overtaken = []

    @agent.on("*")
    async def handle(message):
        earlier = [held for held in sidecar.live if held.key == message.task_id]
        if earlier and earlier[0].envelope["channel_sequence_id"] < message.sequence:
            overtaken.append(message)
        await asyncio.sleep(chance.random() * 0.004)
        luck = chance.random()
        if luck < 0.15:
            raise ValueError("bad luck")
        if luck < 0.2:
            await message.nack("release")
        elif luck < 0.25:
            for held in earlier:
                held.token = None  # its lease lapses, and with it those of its followers
        elif luck < 0.35:
            path = chance.choice(["/v1/messages/ack", "/v1/messages/nack", "/v1/messages"])
            sidecar.fail(path, chance.choice([LosesAnswer(), LosesRequest(), Fails()]))

    sidecar.queue(*(envelope(n, task_id=chance.choice("abcde")) for n in range(1, 81)))
    async with running(agent, concurrency=3, max=12):
        await sidecar.until(lambda: not sidecar.live)
    assert overtaken == []
    assert sorted(n for n, _ in sidecar.acked) == list(range(1, 81))
