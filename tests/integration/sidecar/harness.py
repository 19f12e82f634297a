"""A deployment in a short-named folder, sidecars in this process or in their own, and a client."""

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp

from shared.config import Config, load
from shared.keys import create_key, load_keyring
from sidecar.app import application
from tests.support.fake_adapter import FakeAdapter

AGENTS = ("pm", "qa")
CHANNELS = {"product": ["pm", "qa"], "platform": ["pm"]}

_TOML = """
[deployment]
development = {development}

[agents.pm]
[agents.qa]

[channels.product]
members = ["pm", "qa"]
[channels.platform]
members = ["pm"]

[limits]
{limits}
"""

_FAST = {
    "health_poll_seconds": 0.05,
    "breaker_reset_seconds": 0.05,
    "breaker_reset_cap_seconds": 0.2,
    "link_timeout_seconds": 1.0,
}


class Client:
    """Speaks to a sidecar as its agent would."""

    def __init__(self, session: aiohttp.ClientSession, base: str = "http://sidecar") -> None:
        self._session = session
        self._base = base

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Status and JSON of one call; `body` as JSON, or as bytes as they are."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        data = io.BytesIO(data) if data and len(data) > 2**20 else data  # aiohttp warns of large bodies in one piece
        headers = {"Content-Type": "application/json"} | options.pop("headers", {})
        async with self._session.request(method, self._base + path, data=data, headers=headers, **options) as response:
            self.headers = response.headers
            content = await response.read()
            return response.status, json.loads(content) if "json" in response.content_type else content.decode()

    async def send(self, **fields: Any) -> tuple[int, Any]:
        """Send a message; what matters is named, the rest has defaults."""
        return await self.call("POST", "/v1/messages", message(**fields))

    async def poll(self, wait: float = 0, count: int = 10) -> tuple[int, Any]:
        """Take messages."""
        return await self.call("GET", f"/v1/messages?wait={wait}&max={count}")

    async def ack(self, *ids: str, **results: Any) -> tuple[int, Any]:
        """Acknowledge."""
        body: dict[str, Any] = {"delivery_ids": list(ids)}
        return await self.call("POST", "/v1/messages/ack", body | ({"results": results} if results else {}))

    async def health(self) -> dict[str, Any]:
        """The health document."""
        status, health = await self.call("GET", "/health")
        assert status == 200
        return health


def message(**fields: Any) -> dict[str, Any]:
    return {"to": "product", "type": "note/1", "payload": {"text": "hello"}} | fields


def key(number: int) -> str:
    return str(UUID(int=number))


class Deployment:
    """One `multiclaw.toml` with keys, and what runs of it."""

    def __init__(self, folder: Path, *, development: bool = False, **limits: Any) -> None:
        self.path = folder / "multiclaw.toml"
        lines = "\n".join(f"{name} = {value}" for name, value in (_FAST | limits).items())
        self.path.write_text(_TOML.format(development=str(development).lower(), limits=lines))
        self.config: Config = load(self.path, {})
        self.config.paths.keys.mkdir()
        for agent in AGENTS:
            create_key(self.config.paths.keys, agent)
        self.keyrings = {agent: load_keyring(self.config.paths.keys, agent) for agent in AGENTS}
        self.fake = FakeAdapter(self.keyrings, CHANNELS | {f"@{agent}": [agent] for agent in AGENTS})

    def adapter(self) -> contextlib.AbstractAsyncContextManager[None]:
        """The fake adapter, up for a block; it may be brought up again."""
        return self.fake.running(self.config.adapter_socket)

    @contextlib.asynccontextmanager
    async def sidecar(self, agent: str = "pm") -> AsyncIterator[Client]:
        """A sidecar in this process, and a client of it."""
        async with application(self.path, agent), self.client(agent) as client:
            yield client

    @contextlib.asynccontextmanager
    async def client(self, agent: str = "pm") -> AsyncIterator[Client]:
        """A client on the Unix socket."""
        connector = aiohttp.UnixConnector(str(self.config.sidecar_socket(agent)), limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Client(session)

    @contextlib.asynccontextmanager
    async def process(self, agent: str = "pm") -> AsyncIterator[asyncio.subprocess.Process]:
        """A sidecar in its own process, serving; killed at the end if it still runs."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sidecar", "--config", str(self.path), "--agent", agent
        )
        try:
            socket_path = self.config.sidecar_socket(agent)
            await until(lambda: process.returncode is not None or _connects(socket_path))
            assert process.returncode is None
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for a condition; fail at the deadline."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


async def until_health(client: Client, seconds: float = 10.0, **expected: Any) -> dict[str, Any]:
    """Wait until the health document holds `expected`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        health = await client.health()
        if all(health[name] == value for name, value in expected.items()):
            return health
        assert asyncio.get_running_loop().time() < deadline, f"{health} does not become {expected}"
        await asyncio.sleep(0.01)


def _connects(path: Path) -> bool:
    import socket  # noqa: PLC0415 - only here

    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(os.fspath(path)) == 0


def fresh_key() -> str:
    return str(uuid4())
