"""Work that goes on beside a block, and no longer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

_CANCEL_SECONDS: Final = 0.1


@contextlib.asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `works` while the block lasts. They are cancelled then, and over when the block is left; what they raised is
    not raised here."""
    tasks = {asyncio.create_task(work) for work in works}
    try:
        yield
    finally:
        while tasks:  # again and again: Python 3.11's `wait_for` forgets a cancellation that comes with its result
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
