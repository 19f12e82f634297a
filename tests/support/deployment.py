"""A deployment in a folder, and its real processes: started, waited for on a condition, stopped, killed."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp

from shared.config import Config, load
from shared.keys import Keyring, create_key, create_private, load_keyring
from shared.names import GOVERNOR
from tests.support.factories import AGENTS, CHANNELS, ROLES

READY_SECONDS_MAX = 15.0
"""Deadline of every wait here: half a second is usual, and the cores are shared."""

QUICK = {"health_poll_seconds": 0.05, "breaker_reset_seconds": 0.05, "breaker_reset_cap_seconds": 0.2}
"""Limits of sidecars that notice at once that their adapter is gone, or back."""


class ServerProcess:
    """One `python -m MODULE` of ours. Its output goes to `log_path`."""

    def __init__(self, arguments: list[str], log_path: Path, environment: Mapping[str, str]) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", *arguments], stdout=log, stderr=log, env={**os.environ, **environment}
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def send_signal(self, signum: int) -> None:
        """Send a signal; one that ended already is left alone."""
        self._process.send_signal(signum)

    def wait(self, seconds_max: float | None = None) -> int:
        """The exit status, once it has ended; raises `subprocess.TimeoutExpired`."""
        return self._process.wait(seconds_max)

    def kill9(self) -> None:
        """SIGKILL, and wait for the kernel to be done with it."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    async def stop(self, seconds_max: float = READY_SECONDS_MAX) -> int:
        """SIGTERM; the exit status."""
        self.send_signal(signal.SIGTERM)
        return await self.ended(seconds_max)

    async def ended(self, seconds_max: float = READY_SECONDS_MAX) -> int:
        """The exit status, once it has ended; raises `subprocess.TimeoutExpired`."""
        return await asyncio.to_thread(self.wait, seconds_max)

    def log(self) -> str:
        """What it has written."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")


class Deployment:
    """A folder as `multiclaw init` makes it. Used with `async with`: what still runs at the end is killed.

    `process` starts each process: by an exec, or by a fork (`tests/support/forked.py`).
    """

    def __init__(
        self,
        folder: Path,
        limits: Mapping[str, Any] | None = None,
        *,
        agents: Mapping[str, str] = ROLES,
        channels: Mapping[str, tuple[str, ...]] = CHANNELS,
        development: bool = False,
        rates: Mapping[str, tuple[int, int]] | None = None,
        process: type[ServerProcess] = ServerProcess,
    ) -> None:
        self.folder = folder
        self._start_process = process
        self.config_path = folder / "multiclaw.toml"
        folder.mkdir(parents=True, exist_ok=True)
        text = _toml(agents, channels, limits or {}, development=development)
        for name, (per_second, burst) in (rates or {}).items():
            text += f"\n[rates.{name}]\nper_second = {per_second}\nburst = {burst}\n"
        self.config_path.write_text(text, encoding="utf-8")
        self.config: Config = load(self.config_path, {})
        self.adapter: ServerProcess | None = None
        self.sidecars: dict[str, ServerProcess] = {}
        self.members = {name: tuple(members) for name, members in channels.items()}
        self.members |= {f"@{name}": (name,) for name in (*agents, GOVERNOR)}
        if "platform" in self.members:
            self.members["platform"] += ("adapter",)
        self._make_files()

    def _make_files(self) -> None:
        paths = self.config.paths
        for folder in (paths.state, paths.run, paths.keys, paths.contracts, self.config.adapter_state):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_key(paths.keys, GOVERNOR)
        for agent in self.config.agents:
            create_key(paths.keys, agent)
            self.config.sidecar_state(agent).mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private(self.config.token_file(agent), secrets.token_urlsafe(32))

    def keyring(self, agent: str) -> Keyring:
        """The signing keys of an agent."""
        return load_keyring(self.config.paths.keys, agent)

    def token(self, agent: str) -> str:
        """The bearer token of an agent's sidecar."""
        return self.config.token_file(agent).read_text(encoding="ascii").strip()

    async def start_adapter(self, environment: Mapping[str, str] | None = None, *, wait: bool = True) -> ServerProcess:
        """Start the adapter; with `wait`, until it is ready."""
        arguments = ["adapter", "--config", str(self.config_path)]
        self.adapter = self._start_process(arguments, self.folder / "adapter.log", environment or {})
        if wait:
            await self.adapter_ready()
        return self.adapter

    async def start_sidecar(
        self, agent: str, environment: Mapping[str, str] | None = None, *, wait: bool = True
    ) -> ServerProcess:
        """Start one sidecar; with `wait`, until it answers its agent (the adapter need not be there)."""
        arguments = ["sidecar", "--config", str(self.config_path), "--agent", agent]
        process = self._start_process(arguments, self.folder / f"sidecar-{agent}.log", environment or {})
        self.sidecars[agent] = process
        if wait:
            await self.sidecar_ready(agent)
        return process

    async def start_all(self) -> None:
        """The adapter, then every sidecar at once."""
        await self.start_adapter()
        await asyncio.gather(*(self.start_sidecar(agent) for agent in self.config.agents))

    async def adapter_ready(self) -> dict[str, Any]:
        """The adapter's health document, once it says 200."""
        return await self._healthy(self.config.adapter_socket, self.adapter)

    async def sidecar_ready(self, agent: str) -> dict[str, Any]:
        """The sidecar's health document, once it answers."""
        return await self._healthy(self.config.sidecar_socket(agent), self.sidecars.get(agent))

    async def connected(self, *agents: str) -> None:
        """Wait until the sidecars of `agents`, or all that were started, reach the adapter and use their links. An
        adapter that was started again is ready before they have found it.
        """
        for agent in agents or self.sidecars:
            await until(partial(self._is_connected, agent), f"the sidecar of {agent} reaches the adapter")

    async def _is_connected(self, agent: str) -> bool:
        _, document = await health(self.config.sidecar_socket(agent))
        return document.get("adapter_reachable") is True and document["breaker"] == "closed"

    async def _healthy(self, socket: Path, process: ServerProcess | None) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def asked() -> bool:
            if process is not None and process.returncode is not None:
                raise AssertionError(f"the process ended with {process.returncode}:\n{process.log()[-4000:]}")
            status, document = await health(socket)
            found.update(document)
            return status == 200

        await until(asked, f"{socket.name} is healthy")
        return found

    def kill9_adapter(self) -> None:
        """SIGKILL to the adapter."""
        assert self.adapter is not None
        self.adapter.kill9()

    def kill9_sidecar(self, agent: str) -> None:
        """SIGKILL to one sidecar."""
        self.sidecars[agent].kill9()

    async def stop_all(self) -> dict[str, int]:
        """SIGTERM to what runs, sidecars first; the exit status of each by name."""
        running = {f"sidecar-{agent}": process for agent, process in self.sidecars.items()}
        statuses = await asyncio.gather(*(process.stop() for process in running.values()))
        answer = dict(zip(running, statuses, strict=True))
        if self.adapter is not None:
            answer["adapter"] = await self.adapter.stop()
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in (*self.sidecars.values(), self.adapter):
            if process is not None and process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill9()


async def health(socket: Path) -> tuple[int, dict[str, Any]]:
    """Status and document of `GET /health`; status 0 while nobody listens."""
    with contextlib.suppress(OSError, aiohttp.ClientError):
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session,
            session.get("http://health/health", timeout=aiohttp.ClientTimeout(total=2)) as response,
        ):
            return response.status, await response.json()
    return 0, {}


async def until(
    condition: Callable[[], Awaitable[bool]] | Callable[[], bool], what: str, seconds_max: float = READY_SECONDS_MAX
) -> None:
    """Wait for a condition, asked every 10 ms; an `AssertionError` names what did not come in time."""
    deadline = time.monotonic() + seconds_max
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        assert time.monotonic() < deadline, f"not within {seconds_max:g} s: {what}"
        await asyncio.sleep(0.01)


def _toml(
    agents: Mapping[str, str], channels: Mapping[str, tuple[str, ...]], limits: Mapping[str, Any], *, development: bool
) -> str:
    lines = ["[deployment]", 'name = "test"', f"development = {json.dumps(development)}", "", "[limits]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in limits.items()]
    for name, role in agents.items():
        lines += ["", f"[agents.{name}]", f'role = "{role}"']
    for name, members in channels.items():
        lines += ["", f"[channels.{name}]", f"members = {json.dumps(list(members))}"]
    return "\n".join(lines) + "\n"


__all__ = ["AGENTS", "CHANNELS", "Deployment", "ServerProcess", "health", "until"]
