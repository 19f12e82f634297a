"""Dead letters as a person at a shell and an orchestrator in Python meet them, by real processes."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiclaw import Agent, Refused
from tests.support.shell import Shell, wait_until

AGENTS = "orchestrator,pm,qa"


@pytest.fixture(scope="module")
def running() -> Iterator[Shell]:
    """A deployment that runs; each test leaves no dead letter open."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTICLAW_LIMITS__ALERT_WINDOW_SECONDS", "0.5")
        shell = Shell(Path(folder), AGENTS)
        with shell.up():
            yield shell


def refuse(shell: Shell, reason: str) -> None:
    """qa refuses what it has."""

    async def act() -> None:
        async with Agent("qa", config=shell.config) as qa:
            for message in await qa.poll(wait=10, max=100):
                await message.nack("refuse", reason)

    asyncio.run(act())


def dead_letters(shell: Shell, verb: str, *more: object, status: int = 0) -> dict:
    """The document of `dead-letters VERB --json`."""
    done = shell("dead-letters", verb, *more, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_a_dead_letter_is_seen_replayed_and_processed(running: Shell) -> None:
    """From the refusal to the second hand-over, with the alert in between."""
    sent = running.send("pm", "@qa", "hello")
    refuse(running, "no such \033[31mthing")
    listed = dead_letters(running, "list", "--recipient", "qa", "--reason", "refused")["dead_letters"]
    place = f"qa/@qa/{sent['channel_sequence_id']}"
    assert [(letter["recipient"], letter["channel_sequence_id"]) for letter in listed] == [
        ("qa", sent["channel_sequence_id"])
    ]
    for words in (running("dead-letters", "list").stdout, running("dead-letters", "show", place).stdout):
        assert f"{place} note/1 from pm, refused" in words
        assert "\033" not in words
    assert dead_letters(running, "groups")["groups"][0]["count"] == 1
    assert dead_letters(running, "show", place)["envelope"]["payload"] == {"text": "hello"}
    dry = dead_letters(running, "replay", "--recipient", "qa", "--dry-run")
    assert (dry["matched"], dry["replayed"]) == (1, 0)
    assert dead_letters(running, "replay", place)["replayed"] == 1
    assert [message["envelope"]["payload"]["text"] for message in running.recv("qa", "--wait", 10)] == ["hello"]
    assert dead_letters(running, "list")["dead_letters"] == []
    again = running("dead-letters", "replay", place)
    assert again.returncode == 1
    assert "1 of 1 were refused" in again.stderr
    alerts: list[dict] = []
    wait_until(lambda: bool(alerts.extend(running.recv("orchestrator")) or alerts), "the orchestrator is told")
    assert alerts[0]["envelope"]["payload"]["summary"] == "Messages for qa that are dead (refused): 1."


def test_a_dead_letter_is_resolved(running: Shell) -> None:
    """With a note, after which it is listed no more."""
    sent = running.send("pm", "@qa", "stale")
    refuse(running, "too late")
    place = f"qa/@qa/{sent['channel_sequence_id']}"
    assert dead_letters(running, "resolve", place, "--note", "told by phone")["resolved"] == 1
    shown = dead_letters(running, "show", place)
    assert (shown["closure"], shown["note"]) == ("resolved", "told by phone")
    assert dead_letters(running, "list")["dead_letters"] == []


def test_dead_letters_are_the_orchestrators(running: Shell) -> None:
    """Another agent is refused, at the shell and in Python."""
    refused = running("dead-letters", "list", "--as", "pm")
    assert refused.returncode == 1
    assert "not-permitted" in refused.stderr

    async def act() -> None:
        async with Agent("pm", config=running.config) as pm:
            await pm.dead_letters.replay(recipient="qa")

    with pytest.raises(Refused) as refusal:
        asyncio.run(act())
    assert (refusal.value.type, refusal.value.status) == ("not-permitted", 403)


@pytest.mark.parametrize(
    "arguments", [("replay",), ("replay", "--all", "--recipient", "qa"), ("replay", "qa/@qa"), ("show", "qa/@qa/x")]
)
def test_what_is_ambiguous_is_wrong_use(running: Shell, arguments: tuple[str, ...]) -> None:
    """A replay of everything is asked for by name."""
    assert running("dead-letters", *arguments).returncode == 2
