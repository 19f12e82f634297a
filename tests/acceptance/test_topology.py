"""Members change while everything runs, as an orchestrator and a human at a shell meet it, by real processes."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiclaw import Agent
from multiclaw.client import Refused
from tests.support.shell import Shell, wait_until

AGENTS = "orchestrator,pm,qa"


@pytest.fixture
def running() -> Iterator[Shell]:
    """A deployment that runs."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        shell = Shell(Path(folder), AGENTS)
        with shell.up():
            yield shell


def topology(shell: Shell, verb: str, *more: object, status: int = 0) -> dict:
    """The document of `topology VERB --json`."""
    done = shell("topology", verb, *more, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else {"words": done.stderr}


def is_ready(shell: Shell, agent: str) -> bool:
    return shell.status()["agents"].get(agent, {}).get("ready") is True


def test_an_agent_joins_works_and_leaves(running: Shell) -> None:
    """Proposed, approved, in the file, served by a sidecar that `up` starts; then removed."""
    adapter = running.status()["adapter"]["pid"]
    options = ["--add-agent", "ops=execution", "--join", "product=ops", "--add-channel", "incidents=ops,qa"]
    proposed = topology(running, "propose", *options, "--reason", "someone must operate it")
    assert (proposed["version"], proposed["state"], proposed["proposed_by"]) == (2, "proposed", "orchestrator")
    words = running("topology", "list").stdout
    assert "2 proposed: orchestrator" in words
    assert "ops joins product" in words
    comments = [line for line in running.config.read_text().splitlines() if line.startswith("#")]
    approved = topology(running, "approve", 2, "--note", "agreed")
    assert (approved["state"], approved["in_file"], approved["note"]) == ("current", True, "agreed")
    text = running.config.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == comments
    assert "[agents.ops]" in text
    assert "ops" not in running.config.with_name("multiclaw.toml.previous").read_text()
    wait_until(lambda: is_ready(running, "ops"), "`up` starts the sidecar of the new agent")
    running.send("pm", "product", "to all")
    assert running.send("ops", "incidents", "fire")["channel_sequence_id"] == 1
    heard = [message["envelope"]["payload"]["text"] for message in running.recv("ops", "--wait", 10)]
    assert heard == ["to all", "fire"]
    running.send("pm", "@ops", "too late")
    topology(running, "propose", "--remove-agent", "ops", "--reason", "done")
    topology(running, "approve", 3)
    wait_until(lambda: "ops" not in running.status()["agents"], "it is gone")
    letters = json.loads(running("dead-letters", "list", "--json").stdout)["dead_letters"]
    assert [(each["recipient"], each["reason"], each["detail"]) for each in letters] == [
        ("ops", "refused", "ops is no agent since version 3 of the topology")
    ]
    assert running.status()["adapter"]["pid"] == adapter
    assert all(is_ready(running, agent) for agent in AGENTS.split(","))


def test_what_cannot_be_is_refused_with_what_to_do(running: Shell) -> None:
    """At each verb, and nothing is changed."""
    assert (
        "Did you mean 'qa'" in topology(running, "propose", "--remove-agent", "qaa", "--reason", "x", status=1)["words"]
    )
    assert "say what shall change" in topology(running, "propose", "--reason", "x", status=2)["words"]
    assert "not of the form" in topology(running, "propose", "--join", "qa", "--reason", "x", status=2)["words"]
    assert (
        "not-permitted"
        in topology(running, "propose", "--remove-agent", "qa", "--reason", "x", "--as", "pm", status=1)["words"]
    )
    assert "not-found" in topology(running, "approve", 9, status=1)["words"]
    first = topology(running, "propose", "--remove-agent", "qa", "--reason", "x")["version"]
    second = topology(running, "propose", "--leave", "product=qa", "--reason", "y")["version"]
    assert topology(running, "deny", first, "--note", "we need it")["state"] == "denied"
    assert "denied" in topology(running, "approve", first, status=1)["words"]
    third = topology(running, "propose", "--remove-channel", "all-agents", "--reason", "z")["version"]
    topology(running, "approve", second)
    assert "proposed again" in topology(running, "approve", third, status=1)["words"]
    text = running.config.read_text()
    running.config.write_text(text.replace("[agents.qa]", "[agents.qa]\nport = 1"))
    fourth = topology(running, "propose", "--remove-channel", "all-agents", "--reason", "z")["version"]
    assert "edited by hand" in topology(running, "approve", fourth, status=78)["words"]
    running.config.write_text(text)
    running.config.with_name("keys").joinpath("human-governor.key").rename(running.folder / "away")
    assert "human-governor" in topology(running, "approve", fourth, status=78)["words"]
    assert topology_of(running) == second


def topology_of(shell: Shell) -> int:
    """The version in force, as an agent sees it."""

    async def act() -> int:
        async with Agent("pm", config=shell.config) as pm:
            with pytest.raises(Refused):
                await pm.topology.propose({"agents": {"remove": ["qa"]}}, "x")
            return (await pm.topology.current())["version"]

    return asyncio.run(act())


def test_an_approval_whose_file_could_not_be_written_stands(running: Shell) -> None:
    """The command says so; after a restart it is still in force, and `apply` writes it."""
    topology(running, "propose", "--leave", "product=qa", "--reason", "x")
    blocker = running.config.with_name("multiclaw.toml.previous")
    blocker.mkdir()
    failed = running("topology", "approve", 2)
    assert failed.returncode == 1
    assert "is in force" in failed.stderr
    assert "topology apply" in failed.stderr
    blocker.rmdir()
    assert topology(running, "show")["in_file"] is False
    running.send("pm", "product", "hello")
    assert running.recv("qa") == []
    assert topology(running, "apply")["in_file"] is True
    assert 'members = ["orchestrator", "pm"]' in running.config.read_text()
