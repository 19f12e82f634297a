"""A fake sidecar on a real socket, and an agent that talks to it."""

from collections.abc import AsyncIterator

import pytest

from multiclaw import Agent
from tests.support.fake_sidecar import FakeSidecar


@pytest.fixture
async def sidecar(short_folder) -> AsyncIterator[FakeSidecar]:
    async with FakeSidecar(short_folder / "sidecar-qa.sock") as sidecar:
        yield sidecar


@pytest.fixture
async def agent(sidecar) -> AsyncIterator[Agent]:
    async with Agent("qa", socket=sidecar.path, retry_seconds=5.0) as agent:
        yield agent
