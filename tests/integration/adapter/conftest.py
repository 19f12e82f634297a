"""A deployment whose adapter runs, and a client for each agent."""

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.app import adapter
from tests.support.deployment import Deployment
from tests.support.invariant import History, violations
from tests.support.link_client import LinkClient


class Link(Deployment):
    """A deployment, clients that speak the link, and what they saw."""

    def __init__(self, folder: Path, limits: dict[str, Any] | None = None) -> None:
        super().__init__(folder, limits)
        self.history = History()
        self._stack = contextlib.AsyncExitStack()

    async def client(self, agent: str = "pm", **options: Any) -> LinkClient:
        """A client that speaks for one agent, closed with the deployment."""
        client = LinkClient(self.config.adapter_socket, self.keyring(agent), **options)
        return await self._stack.enter_async_context(client)

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()
        await super().__aexit__(*details)

    def connect(self, request: bytes = b"") -> socket.socket:
        """A connection of a test's own, with this already sent on it; the test closes it."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(str(self.config.adapter_socket))
        connection.sendall(request)
        return connection

    def violations(self) -> list[str]:
        """What the invariant's checker says of the store and of what was noted."""
        return violations(self.history, self.config.adapter_store, self.members)


@pytest.fixture
async def start(short_folder: Path) -> AsyncIterator[Callable[..., Awaitable[Link]]]:
    """Make a deployment with these limits and start its adapter."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**limits: Any) -> Link:
            link = await stack.enter_async_context(Link(short_folder, limits))
            await link.start_adapter()
            return link

        yield make


@pytest.fixture
async def make_link(short_folder: Path) -> AsyncIterator[Callable[..., Awaitable[Link]]]:
    """Make a deployment whose adapter runs with these variables, and looks after its disk four times a second."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(environment: dict[str, str]) -> Link:
            link = await stack.enter_async_context(Link(short_folder, {"store_probe_seconds": 0.25}))
            await link.start_adapter(environment)
            return link

        yield make


@pytest.fixture
async def near(short_folder: Path) -> AsyncIterator[Link]:
    """The same adapter on the same kind of socket, within this process: starting it costs a tenth."""
    async with Link(short_folder) as deployment, adapter(deployment.config):
        yield deployment


@pytest.fixture
async def link(start: Callable[..., Awaitable[Link]]) -> Link:
    """A running adapter with default limits."""
    return await start()
