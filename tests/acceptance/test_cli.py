"""`multiclaw init`, `up`, `send`, `recv`, `status` as a person at a shell meets them: real processes only."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.support.shell import MULTICLAW, SECONDS_MAX, Shell, is_alive, texts, wait_until


class CommandShell(Shell):
    """Runs each verb as a process."""

    def __call__(self, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """How `multiclaw ARGUMENTS` ended and what it said."""
        environment = {**os.environ, "MULTICLAW_CONFIG": str(self.config)}
        return subprocess.run(  # noqa: S603 - our own command
            [MULTICLAW, *map(str, arguments)],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX * 2,
            check=False,
        )


def pids_of(status: dict) -> list[int]:
    return [status["adapter"]["pid"], *(agent["pid"] for agent in status["agents"].values())]


@pytest.fixture
def shell(short_folder: Path) -> Shell:
    """A deployment of which nothing runs yet."""
    return CommandShell(short_folder, "pm,qa")


@pytest.fixture(scope="module")
def running() -> Iterator[Shell]:
    """A deployment that runs, for tests that leave its queues empty and its processes up."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        shell = CommandShell(Path(folder), "pm,qa")
        with shell.up():
            yield shell


def test_a_message_goes_from_one_agent_to_another(running):
    """Sent by one verb, received by another, once: looking leaves it, receiving takes it."""
    sent = running.send("pm", "@qa", "hello")
    assert (sent["status"], sent["channel"]) == ("accepted", "@qa")
    assert [(r["agent"], r["status"]) for r in sent["recipients"]] == [("qa", "queued")]
    assert texts(running.recv("qa", "--no-ack")) == ["hello"]
    assert running.status()["agents"]["qa"]["queue_depth"] == 1
    taken = running.recv("qa", "--wait", 5)
    assert texts(taken) == ["hello"]
    assert taken[0]["envelope"]["sender"] == "pm"
    assert running.recv("qa") == []
    wait_until(lambda: running.status()["agents"]["qa"]["queue_depth"] == 0, "the queue is empty")


def test_refusals_have_their_status_and_name_the_field(running):
    """An unknown recipient is status 1 with the field; a repeated key is answered as a duplicate."""
    send = ("send", "--as", "pm", "--type", "note/1")
    refused = running(*send, "--to", "@qaa", "--payload", '{"text":"x"}')
    assert refused.returncode == 1
    assert "unknown-recipient" in refused.stderr
    assert "field: /to" in refused.stderr
    key = "1c9f2b8e-5d0a-4c1e-9a54-0d8f6a3b7c21"
    assert running.send("pm", "@qa", "once", "--key", key)["status"] == "accepted"
    assert running.send("pm", "@qa", "once", "--key", key)["status"] == "duplicate"
    piped = running(*send, "--to", "@qa", "--payload-file", "-", stdin='{"text":"piped"}')
    assert piped.stdout.startswith("accepted as @qa#")
    assert texts(running.recv("qa")) == ["once", "piped"]


def test_a_killed_adapter_is_restarted_and_nothing_is_lost(running):
    """After `kill -9` a send is taken all the same, and arrives when the adapter is back, behind what came before."""
    running.send("pm", "@qa", "before")
    before = running.kill_adapter()
    running.send("pm", "@qa", "meanwhile")
    assert running("wait-ready").returncode == 0
    running.wait_restarted(before)
    running.wait_connected()
    received: list[str] = []
    wait_until(lambda: received.extend(texts(running.recv("qa"))) or len(received) == 2, "both have arrived")
    assert received == ["before", "meanwhile"]
    assert "ended adapter status=-9 restart_in=0.2s" in running.log()


def test_status_tells_where_to_connect(running):
    """The address and the token of `status --json` are those that the sidecar takes."""
    agent = json.loads(running("status", "--json").stdout)["agents"]["qa"]
    token = Path(agent["token_file"]).read_text()
    assert (agent["ready"], agent["outbox_depth"], agent["breaker"]) == (True, 0, "closed")
    answers = [
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _GET, f"{agent['url']}/v1/messages?wait=0&max=1", text],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
        ).stdout.strip()
        for text in (token, "wrong")
    ]
    assert answers == ["200", "401"]


_GET = """
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything_in_order(shell, signum):
    """Status 0, no process left, no socket left, sidecars before the adapter."""
    with shell.up() as process:
        pids = pids_of(shell.status())
        process.send_signal(signum)
        assert process.wait(SECONDS_MAX) == 0
        assert not any(map(is_alive, pids))
        assert list((shell.folder / "run").glob("*.sock")) == []
        ends = [line for line in shell.log().splitlines() if line.startswith("ended")]
        assert ends[-1] == "ended adapter status=0"
        assert sorted(ends[:-1]) == ["ended sidecar-pm status=0", "ended sidecar-qa status=0"]


def test_no_child_outlives_a_killed_up(shell):
    """After `kill -9` of `up` itself, nothing goes on holding the store: it can be started again."""
    with shell.up() as process:
        pids = pids_of(shell.status())
        assert all(map(is_alive, pids))
        process.kill()
        wait_until(lambda: not any(map(is_alive, pids)), "the children have ended")
    with shell.up():
        shell.send("pm", "@qa", "again")


def test_a_second_up_ends_with_the_configuration_status_and_leaves_the_first_alone(running):
    """One deployment runs once: the second names the fault and takes nothing over."""
    before = pids_of(running.status())
    second = running("up")
    assert second.returncode == 78, second.stderr
    assert "cannot run with this configuration (status 78)" in second.stderr
    assert pids_of(running.status()) == before
    assert running("status").returncode == 0


def test_a_missing_key_ends_up_with_the_command_that_makes_it(shell):
    """Signing is never silently off, and a restart would not help: 78, and `multiclaw init`."""
    (shell.folder / "keys" / "qa.key").unlink()
    result = shell("up")
    assert result.returncode == 78
    assert f"multiclaw init --dir {shell.folder}" in result.stderr


class Follower:
    """`recv --follow` for qa, whose lines are read one by one."""

    def __init__(self, shell: Shell) -> None:
        command = [MULTICLAW, "recv", "--as", "qa", "--follow", "--config", shell.config]
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines = self.process.stdout
        assert self.lines is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.process.stderr.close()

    def ended(self) -> tuple[int, str]:
        """Its exit status and what it complained of, once it has ended."""
        return self.process.wait(SECONDS_MAX), self.process.stderr.read()


def test_following_shows_messages_as_they_come_until_interrupted(running):
    """Ctrl-C ends it with 130 and without a word; what was shown is acknowledged."""
    with Follower(running) as follower:
        for text in ("first", "second"):
            running.send("pm", "@qa", text)
            assert text in follower.lines.readline()
        wait_until(lambda: running.status()["agents"]["qa"]["queue_depth"] == 0, "both are acknowledged")
        follower.process.send_signal(signal.SIGINT)
        assert follower.ended() == (130, "")


def test_what_nobody_reads_is_given_back(running):
    """`recv --follow | head -n 1` ends quietly at the next message, which stays for the next reader."""
    with Follower(running) as follower:
        running.send("pm", "@qa", "first")
        assert "first" in follower.lines.readline()
        follower.lines.close()
        running.send("pm", "@qa", "second")
        assert follower.ended() == (1, "")
        assert texts(running.recv("qa", "--wait", 5)) == ["second"]
