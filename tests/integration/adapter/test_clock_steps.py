"""The host's clock is set while a real adapter has leases, a backoff, a long-poll and used keys (arbos#650).

The steady clock runs on as it is; only the wall is another, for the adapter and for those who sign requests to it.
"""

import asyncio
import time

import pytest

from adapter import app
from shared.clock import Clock
from tests.integration.adapter.conftest import Link
from tests.support.clock import us
from tests.support.factories import new_key
from tests.support.invariant import read_store

LEASE_SECONDS = 1.5
STEPS = {"an hour back": -3_600, "an hour on": 3_600, "forty days on": 40 * 86_400, "to 1970": -time.time() + 60}


class Wall:
    """The host's wall clock; `step_seconds` is how far it was set."""

    step_seconds = 0.0

    def seconds(self):
        """Since the epoch, as the host has it."""
        return time.time() + self.step_seconds


@pytest.fixture
def wall():
    """The clock of this host."""
    return Wall()


@pytest.fixture
async def link(short_folder, monkeypatch, wall):
    """An adapter in this process, which reads that clock."""
    monkeypatch.setattr(app, "Clock", lambda: Clock(wall=wall.seconds))
    limits = {"lease_seconds": LEASE_SECONDS, "retry_base_seconds": 0.5, "retry_cap_seconds": 0.5}
    async with Link(short_folder, limits) as deployment, app.adapter(deployment.config):
        yield deployment


@pytest.mark.parametrize("seconds", STEPS.values(), ids=STEPS)
async def test_a_step_disturbs_nothing_that_is_under_way(link, wall, seconds):
    """The poll goes on waiting and is served, the lease ends at its time and not before, the backoff is as long as it
    was, the key stays used, and stamps of a channel do not go back."""

    def now_us():
        return us(wall.seconds())

    pm, qa, growth = [await link.client(agent, now_us=now_us) for agent in ("pm", "qa", "growth")]
    key = new_key()
    await pm.send("@qa", payload={"text": "leased"}, idempotency_key=key)
    (held,) = await qa.poll()
    leased_at = time.monotonic()
    await pm.send("@growth", payload={"text": "in backoff"})
    (failed,) = await growth.poll()
    polling = asyncio.create_task(pm.poll(wait=30))

    wall.step_seconds = seconds
    assert (await growth.nack(failed["delivery_id"])).document["status"] == "queued"
    assert (await pm.send("@qa", payload={"text": "leased"}, idempotency_key=key))["code"] == 200
    (again,) = await growth.poll(wait=20)
    assert again["attempt"] == 2
    assert (await growth.ack(again["delivery_id"])).status == 200
    assert not polling.done()
    await pm.send("@pm", payload={"text": "wakes"})
    assert len(await asyncio.wait_for(polling, 10)) == 1

    assert time.monotonic() - leased_at > LEASE_SECONDS or read_store(link.config.adapter_store).census()["leased"] == 2
    (second,) = await qa.poll(wait=20)
    assert time.monotonic() - leased_at >= LEASE_SECONDS
    assert (second["attempt"], second["envelope"]) == (2, held["envelope"])
    for step in (0.0, seconds, 0.0):
        wall.step_seconds = step
        await pm.send("@qa")
    assert link.violations() == []  # that no stamp goes back is one of its rules


@pytest.mark.parametrize("seconds", STEPS.values(), ids=STEPS)
async def test_a_step_between_two_lives_loses_nothing(short_folder, monkeypatch, wall, seconds):
    """The process is stopped, the clock is set, and the next one reads what the first has stored: what waited can be
    had at once, sequences and stamps go on, and nobody waits for a time that was read off another clock."""
    monkeypatch.setattr(app, "Clock", lambda: Clock(wall=wall.seconds))

    def now_us():
        return us(wall.seconds())

    async with Link(short_folder, {}) as deployment:
        async with app.adapter(deployment.config):
            pm = await deployment.client("pm", now_us=now_us)
            first = await pm.send("@qa")
        wall.step_seconds = seconds
        async with app.adapter(deployment.config):
            pm, qa = [await deployment.client(agent, now_us=now_us) for agent in ("pm", "qa")]
            second = await pm.send("@qa")
            assert len(await qa.poll(wait=10)) == 2
        assert [sent["answer"]["channel_sequence_id"] for sent in (first, second)] == [1, 2]
        assert second["answer"]["timestamp_iso8601"] >= first["answer"]["timestamp_iso8601"]
        assert deployment.violations() == []
