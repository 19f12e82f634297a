"""The command line at work on one deployment that `multiclaw up` runs, for tests of what a person at a shell meets."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from multiclaw import cli
from multiclaw.cli.status import collect
from shared.config import load

MULTICLAW = Path(sys.executable).with_name("multiclaw")
SECONDS_MAX = 30.0
"""Deadline of every wait: a restart takes about one second where the cores are idle."""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, asked every 50 ms; an `AssertionError` names what did not come in time."""
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"not within {SECONDS_MAX:g} s: {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether it runs: one that only waits to be reaped by somebody else does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Shell:
    """Runs verbs against one deployment: in this process, as the command's entry point does, since to start an
    interpreter takes longer than most verbs. `up` and all that it starts are processes.
    """

    def __init__(self, folder: Path, agents: str) -> None:
        self.folder = folder
        self.config = folder / "multiclaw.toml"
        assert self("init", "--dir", folder, "--agents", agents).returncode == 0

    def __call__(self, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """How `multiclaw ARGUMENTS` ended and what it said."""
        command = ["multiclaw", *map(str, arguments)]
        out, err = io.StringIO(), io.StringIO()
        status: object = None
        with (
            mock.patch.object(sys, "argv", command),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
            mock.patch.dict(os.environ, {"MULTICLAW_CONFIG": str(self.config)}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                cli.main()
            except SystemExit as end:
                status = end.code
        return subprocess.CompletedProcess(command, status or 0, out.getvalue(), err.getvalue())  # type: ignore[call-overload]

    def status(self) -> dict:
        """The document of `status --json`, whatever it says."""
        return asyncio.run(collect(load(self.config, {}))).document()

    def send(self, sender: str, to: str, text: str, *more: str) -> dict:
        """Send a note; the answer."""
        payload = json.dumps({"text": text})
        sent = self("send", "--as", sender, "--to", to, "--type", "note/1", "--payload", payload, "--json", *more)
        assert sent.returncode == 0, sent.stderr
        return json.loads(sent.stdout)

    def recv(self, agent: str, *more: object) -> list[dict]:
        """Receive; the deliveries."""
        received = self("recv", "--as", agent, "--json", *more)
        assert received.returncode == 0, received.stderr
        return [json.loads(line) for line in received.stdout.splitlines()]

    def kill_adapter(self) -> int:
        """SIGKILL; `up` starts it again. The pid that was."""
        pid = self.status()["adapter"]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_restarted(self, killed: int) -> None:
        """Wait until another adapter than `killed` is ready. Sidecars find it some time later: see `wait_connected`."""

        def is_back() -> bool:
            adapter = self.status()["adapter"]
            return adapter["ready"] and adapter["pid"] != killed

        wait_until(is_back, "another adapter is ready")

    def wait_connected(self) -> None:
        """Wait until everything is ready and every sidecar uses its link: until then a sidecar, ready as it is, answers
        its agent that the adapter cannot be reached.
        """

        def is_connected() -> bool:
            status = self.status()
            agents = status["agents"].values()
            return all(each["ready"] for each in (status["adapter"], *agents)) and all(
                agent["breaker"] == "closed" for agent in agents
            )

        wait_until(is_connected, "everything is ready and connected")

    def log(self) -> str:
        """What `up` and its children have said."""
        return (self.folder / "up.log").read_text()

    @contextlib.contextmanager
    def up(self) -> Iterator[subprocess.Popen]:
        """`up`, ready; killed at the end of the block if it still runs, which must end its children too."""
        command = [MULTICLAW, "up", "--config", self.config]
        with (self.folder / "up.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own command
        try:
            self.wait_connected()
            yield process
        finally:
            children = _children(process.pid)
            process.kill()
            process.wait()
            wait_until(lambda: not any(map(is_alive, children)), "what `up` had started has ended")


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def texts(deliveries: list[dict]) -> list[str]:
    """The text of each note."""
    return [delivery["envelope"]["payload"]["text"] for delivery in deliveries]
