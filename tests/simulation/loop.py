"""An event loop in virtual time: when nothing can run now, its clock jumps to the next thing that is due.

Sockets are real and both their ends live here, so what was written can be read at once, before any jump.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

_STUCK_SECONDS = 5.0
"""Real time to wait for something that no timer announces; nothing of ours ever needs it."""


class StuckError(RuntimeError):
    """Nothing can run, nothing is due, and nothing comes from outside."""


class _Selector(selectors.DefaultSelector):
    """Looks without waiting; a wait that finds nothing moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self.now += timeout
            return []
        ready = super().select(_STUCK_SECONDS)
        if not ready:
            raise StuckError("every task waits for another")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and costs nothing to pass."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual.now

    def run_in_executor(self, _: Any, work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """In place of a thread: the clock would not wait for it, and its end would come at a moment of chance."""
        future = self.create_future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def run(main: Any) -> Any:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
