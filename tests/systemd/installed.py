"""A deployment that systemd runs in the box: installed as the README says, and spoken to from outside."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final, Self

from multiclaw import Receipt, SyncAgent, Unavailable
from multiclaw.cli.template import AGENTS_DEFAULT
from tests.systemd.box import Box
from tests.systemd.installation import MULTICLAW, PYTHON

ADAPTER: Final = "multiclaw-adapter.service"
WATCH: Final = "multiclaw-watch.service"
CONFIG: Final = "/etc/multiclaw/multiclaw.toml"
_ASK: Final = """
import http.client, socket, sys
asking = http.client.HTTPConnection("box", timeout=10)
asking.sock = socket.socket(socket.AF_UNIX)
asking.sock.settimeout(10)
try:
    asking.sock.connect(sys.argv[1])
except OSError:
    sys.exit(0)
asking.request("GET", sys.argv[2])
print(asking.getresponse().status)
"""
_IDLE_AGENT: Final = "#!/bin/sh\nexec sleep infinity\n"
_AGENT: Final = f"""#!{PYTHON}
import asyncio, os
from multiclaw import Agent
agent = Agent(os.environ["MULTICLAW_AGENT"])
@agent.on("query/1")
async def answer(message):
    await message.reply("answer/1", {{"text": f"user {{os.getuid()}}"}})
asyncio.run(agent.run())
"""
WAIT_SECONDS_MAX: Final = 30.0


class Installed:
    """What `multiclaw init --system` and `multiclaw install-units` made."""

    def __init__(self, box: Box) -> None:
        self.box = box
        box.run(MULTICLAW, "init", "--system", "--dir", "/etc/multiclaw")
        self.install()
        for agent in AGENTS_DEFAULT:
            box.write(f"/etc/multiclaw/agents/{agent}", _IDLE_AGENT, 0o755)
        box.write("/etc/multiclaw/agents/engineering", _AGENT, 0o755)

    def install(self, *options: str) -> list[str]:
        """Run `install-units`; its lines."""
        return self.box.run(MULTICLAW, "install-units", *options).stdout.splitlines()

    def start(self) -> None:
        """All of it runs and is ready, whatever was before."""
        self.box.run("systemctl", "reset-failed")
        sidecars = [f"multiclaw-sidecar@{agent}.service" for agent in AGENTS_DEFAULT]
        self.box.run("systemctl", "start", "multiclaw.target", ADAPTER, WATCH, *sidecars)

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.box.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def pid(self, unit: str = ADAPTER) -> int:
        """The main process of a unit, as numbered inside; 0 where there is none."""
        return int(self.show(unit, "MainPID"))

    def ask(self, socket: str, user: str = "root", target: str = "/health") -> int:
        """The status of a GET at a socket inside, asked as a user; 0 where the user may not connect."""
        asking = (PYTHON, "-c", _ASK, f"/run/multiclaw/{socket}", target)
        done = self.box.run("runuser", "-u", user, "--", *asking, check=False)
        return int(done.stdout or 0)

    @contextmanager
    def agent(self, name: str) -> Iterator[SyncAgent]:
        """An agent, at its sidecar's socket."""
        with SyncAgent(name, socket=self.box.path(f"/run/multiclaw/sidecar-{name}.sock")) as agent:
            yield agent

    @contextmanager
    def drop_in(self, unit: str, section: str) -> Iterator[None]:
        """A unit with other settings for a while."""
        path = f"/run/systemd/system/{unit}.d/test.conf"
        self.box.write(path, section)
        self.box.run("systemctl", "daemon-reload")
        try:
            yield
        finally:
            self.box.path(path).unlink()
            self.box.run("systemctl", "daemon-reload")


def until(condition: Callable[[], bool], what: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
    """Wait for a condition; an `AssertionError` names what did not come."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds_max:g} s: {what}"
        time.sleep(0.05)


def drain(agent: SyncAgent) -> list[str]:
    """Texts of everything that waits for an agent, each acknowledged."""
    texts = []
    with contextlib.suppress(Unavailable):  # while the adapter is down
        while messages := agent.poll(wait=0, max=100):
            for message in messages:
                texts.append(message.payload["text"])
                message.ack()
    return texts


def alarms(orchestrator: SyncAgent) -> list[dict[str, Any]]:
    """Every alarm that waits for the orchestrator; all that waits is acknowledged."""
    found = []
    with contextlib.suppress(Unavailable):  # while the adapter is down
        while messages := orchestrator.poll(wait=0, max=100):
            for message in messages:
                found += [message.payload] if message.type == "alarm/1" else []
                message.ack()
    return found


class Traffic:
    """One agent sends numbers to another, which acknowledges them, in threads of their own until the block ends."""

    def __init__(self, sender: SyncAgent, receiver: SyncAgent) -> None:
        self._sender = sender
        self._receiver = receiver
        self._sending, self._receiving = Event(), Event()
        self._threads = [Thread(target=self._send), Thread(target=self._receive)]
        self.receipts: list[Receipt] = []
        self.received: list[str] = []
        self._seen = 0

    def _send(self) -> None:
        while not self._sending.is_set():
            text = str(len(self.receipts))
            self.receipts.append(self._sender.send(f"@{self._receiver.name}", "note/1", {"text": text}))
            self._sending.wait(0.02)

    def _receive(self) -> None:
        while not self._receiving.is_set():
            self.received += drain(self._receiver)
            self._receiving.wait(0.02)

    @property
    def flows(self) -> bool:
        """Whether something was received since this was asked last."""
        before, self._seen = self._seen, len(self.received)
        return self._seen > before

    @property
    def outbox_depth(self) -> int:
        """How many sends wait at the sender's sidecar."""
        return int(self._sender.health()["outbox_depth"])

    def accepted_since(self, first: int) -> int | None:
        """The first send from `first` on that reached the adapter; others went to the outbox meanwhile."""
        return next((n for n in range(first, len(self.receipts)) if self.receipts[n].status == "accepted"), None)

    def has_received_since(self, first: int) -> bool:
        """Whether a send from `first` on has reached its receiver."""
        return any(int(text) >= first for text in reversed(self.received))

    def finish(self) -> None:
        """Send no more, and wait until what was sent is received."""
        self._sending.set()
        self._threads[0].join()
        until(lambda: len(self.received) >= len(self.receipts), "everything is received")

    def __enter__(self) -> Self:
        drain(self._receiver)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sending.set()
        self._receiving.set()
        for thread in self._threads:
            thread.join()
