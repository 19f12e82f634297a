"""Group commit: everything that waits shares one transaction, and answers leave after it.

When idle, a command commits at the end of its own loop turn, together with what else came in that turn. While a commit
runs, commands gather and form the next group. One group is in flight at a time, so commit order is arrival order.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

Command = TypeVar("Command")
Outcome = TypeVar("Outcome")

GROUP_MAX: Final = 512
"""Commands in one transaction: the gain of grouping is spent by then, and a bound keeps latency even."""


class GroupCommit(Generic[Command, Outcome]):
    """Feeds groups of commands to `apply`, which commits them and gives an outcome for each, in order.

    When `apply` raises, every command of that group fails with what it raised: nothing of the group was committed.
    """

    def __init__(self, apply: Callable[[list[Command]], Awaitable[list[Outcome | Exception]]]) -> None:
        self._apply = apply
        self._waiting: list[tuple[Command, asyncio.Future[Outcome]]] = []
        self._task: asyncio.Task[None] | None = None

    def submit(self, command: Command) -> "asyncio.Future[Outcome]":
        """Queue a command; the future has its outcome once it is durable. Cancelling it does not undo it."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return future

    async def drained(self) -> None:
        """Wait until nothing is queued or in flight."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
                await self._commit(group)
                # One turn for those who were answered and for what has arrived: it joins the next group, and the
                # commit's thread does not fight the answers for the interpreter. Worth a tenth with few senders.
                await asyncio.sleep(0)
        finally:
            self._task = None

    async def _commit(self, group: list[tuple[Command, "asyncio.Future[Outcome]"]]) -> None:
        try:
            outcomes = await self._apply([command for command, _ in group])
        except Exception as error:
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
