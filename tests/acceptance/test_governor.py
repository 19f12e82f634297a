"""The Governor's inbox as a human at a shell meets it, by real processes."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shell import Shell


@pytest.fixture(scope="module")
def running() -> Iterator[Shell]:
    """A deployment that runs."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        shell = Shell(Path(folder), "orchestrator,pm")
        with shell.up():
            yield shell


def listed(shell: Shell, *more: object) -> list[tuple[int, str]]:
    """(sequence, summary) of what the inbox lists."""
    done = shell("governor", "inbox", "--json", *more)
    assert done.returncode == 0, done.stderr
    envelopes = [message["envelope"] for message in json.loads(done.stdout)["messages"]]
    return [(envelope["channel_sequence_id"], envelope["payload"]["summary"]) for envelope in envelopes]


def test_a_human_reads_the_inbox(running: Shell) -> None:
    """From an agent's escalation to a message that is marked as read, by number and with --all."""
    for text in ("one \033[31m", "two", "three"):
        payload = json.dumps({"summary": text})
        sent = running("send", "--as", "pm", "--to", "@human-governor", "--type", "escalation/1", "--payload", payload)
        assert sent.returncode == 0, sent.stderr
    words = running("governor", "inbox").stdout
    assert "escalation/1 from pm: two" in words
    assert "\033" not in words
    assert "3 unread for a human" in running("status").stdout
    assert listed(running) == [(1, "one \033[31m"), (2, "two"), (3, "three")]
    assert running("governor", "read", 2).stdout == "read 2\n"
    assert [number for number, _ in listed(running)] == [1, 3]
    everything = running("governor", "read", "--all")
    assert [line.split(" ")[0] for line in everything.stdout.splitlines()] == ["1", "3"]
    assert listed(running) == []
    assert [number for number, _ in listed(running, "--all")] == [1, 2, 3]
    assert "(read)" in running("governor", "inbox", "--all").stdout
    assert running("governor", "read", "--all").stdout == ""
    missing = running("governor", "read", 99)
    assert (missing.returncode, "not in the inbox: 99" in missing.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [("read",), ("read", "1", "--all"), ("read", "0"), ("read", "x")])
def test_what_is_ambiguous_is_wrong_use(running: Shell, arguments: tuple[str, ...]) -> None:
    """Nothing is marked by accident."""
    assert running("governor", *arguments).returncode == 2
