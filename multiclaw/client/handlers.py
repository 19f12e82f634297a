"""Functions that an agent registers for types of messages, and how one is called."""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from multiclaw.client.messages import Message

ANY_TYPE: Final = "*"

Handler = Callable[[Message], Any]
H = TypeVar("H", bound=Callable[..., Any])


class Handlers:
    """One function per type, and perhaps one for all the rest (`*`)."""

    def __init__(self) -> None:
        self._by_type: dict[str, Handler] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def add(self, types: tuple[str, ...], handler: Handler) -> None:
        """Register; raises `ValueError` for a type that has a handler already, or for no type at all."""
        if not types or not all(isinstance(name, str) for name in types):
            raise ValueError('name the types to handle: @agent.on("task.assign/1"), or "*" for all others')
        for name in types:
            if name in self._by_type:
                raise ValueError(f"{name!r} has a handler already")
        self._by_type.update(dict.fromkeys(types, handler))

    def find(self, type_name: str) -> Handler | None:
        """The handler of a type."""
        return self._by_type.get(type_name) or self._by_type.get(ANY_TYPE)


async def call(handler: Handler, message: Message, threads: Executor) -> Any:
    """What the handler returns. A plain function runs in a thread, so that it cannot hold up the event loop.

    A thread cannot be interrupted: when cancelled, wait for it, and let its result count.
    """
    if inspect.iscoroutinefunction(handler):
        return await handler(message)
    inside = functools.partial(contextvars.copy_context().run, handler, message)
    work = asyncio.get_running_loop().run_in_executor(threads, inside)
    try:
        result = await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        result = work.result()
    return await result if inspect.isawaitable(result) else result
