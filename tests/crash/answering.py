"""Calls that are made again while a process says that its store does not take them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar


class _Answer(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def document(self) -> Any: ...


A = TypeVar("A", bound=_Answer)


async def answered(ask: Callable[[], Awaitable[A]]) -> A:
    """What is said in the end: of a call that was refused for the disk's sake, nothing is promised."""
    while True:
        answer = await ask()
        if answer.status != 503 or answer.document["type"] != "store-unavailable":
            return answer
        await asyncio.sleep(0.01)
