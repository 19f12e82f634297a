"""An agent at work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from multiclaw import Agent


@contextlib.asynccontextmanager
async def running(agent: Agent, *, wait: float = 1.0, **options: Any) -> AsyncIterator[None]:
    """The agent handles messages, in polls of `wait` seconds; it is stopped in the end."""
    run = asyncio.create_task(agent.run(wait=wait, **options))
    try:
        yield
    finally:
        agent.stop()
        await asyncio.wait_for(asyncio.gather(run, return_exceptions=True), 10)
