"""Scheduled messages as a person at a shell and an agent in Python meet them: real processes, killed at bad moments."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from multiclaw import Agent, Refused
from tests.support.invariant import read_store
from tests.support.shell import Shell, wait_until

AGENTS = "orchestrator,pm,qa"


@pytest.fixture(scope="module")
def running() -> Iterator[Shell]:
    """A deployment that runs; each test leaves nothing scheduled and every queue empty."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        shell = Shell(Path(folder), AGENTS)
        with shell.up():
            yield shell


def at(seconds: float) -> str:
    """An RFC 3339 time from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def listed(shell: Shell, agent: str = "pm", *more: str) -> list[dict]:
    """What `scheduled list --json` tells."""
    done = shell("scheduled", "list", "--as", agent, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["scheduled"]


def test_a_message_is_scheduled_seen_and_cancelled_at_the_shell(running: Shell) -> None:
    """`send --at`, `scheduled list`, `scheduled cancel`, in words and as JSON."""
    sent = running.send("pm", "@qa", "in an hour", "--at", at(3_600))
    assert sent["status"] == "scheduled"
    words = running(
        "send", "--as", "pm", "--to", "@qa", "--type", "note/1", "--payload", '{"text": "x"}', "--at", at(7_200)
    )
    assert "scheduled for" in words.stdout
    assert listed(running)[0]["deliver_at"] == sent["deliver_at"]
    assert len(listed(running, "orchestrator", "--sender", "pm")) == 2
    lines = running("scheduled", "list", "--as", "pm").stdout.splitlines()
    assert sent["idempotency_key"] in lines[0]
    assert "pm to @qa note/1" in lines[0]
    for one in listed(running):
        assert running("scheduled", "cancel", one["idempotency_key"], "--as", "pm").returncode == 0
    assert listed(running) == []
    assert running("scheduled", "cancel", sent["idempotency_key"], "--as", "pm").returncode == 0
    unknown = running("scheduled", "cancel", "00000000-0000-4000-8000-000000000000", "--as", "pm")
    assert (unknown.returncode, "not-found" in unknown.stderr) == (1, True)


def test_a_time_that_is_none_is_refused_with_words(running: Shell) -> None:
    """Too far, no time at all."""
    for moment, word in ((at(31 * 86_400), "30 days"), ("tomorrow", "deliver_at")):
        refused = running(
            "send", "--as", "pm", "--to", "@qa", "--type", "note/1", "--payload", '{"text": "x"}', "--at", moment
        )  # fmt: skip
        assert refused.returncode == 1
        assert word in refused.stderr


def test_what_is_due_while_the_adapter_dies_is_sent_once(running: Shell) -> None:
    """Killed before the time and back after it; what lies ahead still lies ahead, and may still be cancelled."""
    over = running.send("pm", "@qa", "over", "--at", at(3.0))
    ahead = running.send("pm", "@qa", "ahead", "--at", at(3_600))
    running.wait_restarted(running.kill_adapter())
    running.wait_connected()
    (delivery,) = running.recv("qa", "--wait", 20)
    assert delivery["envelope"]["idempotency_key"] == over["idempotency_key"]
    assert [one["idempotency_key"] for one in listed(running)] == [ahead["idempotency_key"]]
    assert running.recv("qa") == []
    assert running("scheduled", "cancel", ahead["idempotency_key"], "--as", "pm").returncode == 0


COUNT = 40


def test_a_kill_at_the_due_time_loses_and_doubles_nothing(running: Shell) -> None:
    """Forty that come due one after the other, and the adapter killed three times: each arrives once, in order."""
    started = datetime.now(UTC) + timedelta(seconds=4)

    async def schedule() -> list[str]:
        async with Agent("pm", config=running.config) as pm:
            messages = [
                {
                    "to": "@qa", "type": "note/1", "payload": {"text": "x", "n": number},
                    "deliver_at": started + timedelta(milliseconds=150 * number),
                }
                for number in range(COUNT)
            ]  # fmt: skip
            return [receipt.key for receipt in await pm.send_many(messages)]

    keys = asyncio.run(schedule())
    wait_until(lambda: datetime.now(UTC) >= started, "it is time")
    for _ in range(3):
        running.wait_restarted(running.kill_adapter())
    running.wait_connected()
    arrived: list[dict] = []
    wait_until(lambda: len(arrived.extend(running.recv("qa", "--max", 100)) or arrived) >= COUNT, "all have come")
    assert [delivery["envelope"]["idempotency_key"] for delivery in arrived] == keys
    assert running.recv("qa", "--wait", 0.5) == []
    assert listed(running) == []
    assert set(read_store(running.folder / "state/adapter/store.db").census()) == {"acked"}


def test_the_same_key_is_never_two_messages(running: Shell) -> None:
    """Repeated before its time and after it; after a cancel it does not come back."""

    async def act() -> None:
        async with Agent("pm", config=running.config) as pm, Agent("qa", config=running.config) as qa:
            moment = datetime.now(UTC) + timedelta(seconds=1)
            first = await pm.send("@qa", "note/1", {"text": "once"}, deliver_at=moment)
            fields = {"deliver_at": moment, "idempotency_key": first.key}
            assert (await pm.send("@qa", "note/1", {"text": "once"}, **fields)).status == "scheduled"
            (message,) = await qa.poll(wait=20)
            await message.ack()
            assert (await pm.send("@qa", "note/1", {"text": "once"}, **fields)).status == "duplicate"
            with pytest.raises(Refused) as late:
                await pm.cancel_scheduled(first.key)
            assert late.value.type == "not-scheduled"
            later = {"deliver_at": datetime.now(UTC) + timedelta(hours=1)}
            gone = await pm.send("@qa", "note/1", {"text": "never"}, **later)
            await pm.cancel_scheduled(gone.key)
            with pytest.raises(Refused) as again:
                await pm.send("@qa", "note/1", {"text": "never"}, idempotency_key=gone.key, **later)
            assert again.value.type == "not-scheduled"
            assert await qa.poll() == []

    asyncio.run(act())
