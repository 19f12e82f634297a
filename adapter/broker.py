"""The loop's side of the store: group commit, long-polls that never lose a wake-up, and ticks when they are due."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from adapter.core.commands import Ack, Claim, Command, GiveBack, HandedOver, Tick, Unpark
from adapter.store.engine import Store
from shared.clock import Clock
from shared.group_commit import GroupCommit
from shared.problems import Problem
from shared.times import MICROSECONDS

_TICK_SECONDS_MIN: Final = 0.01
"""Deadlines closer together than this share a tick."""


def _nothing() -> None:
    """Before a notifier listens."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll got: hand-overs, and what became of the acks that it carried, the ids or the refusal."""

    handed: list[HandedOver]
    acked: list[str] | Problem | None = None


class Broker:
    """Takes commands and polls. Everything it answers is committed.

    `on_letter` is called after each commit that sent the Human Governor a message.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._group: GroupCommit[Command, Any] = GroupCommit(self._apply)
        self._tickets = itertools.count(1)
        self._parked: dict[int, asyncio.Future[list[HandedOver]]] = {}
        self._background: set[asyncio.Future[Any]] = set()
        self._tick: asyncio.TimerHandle | None = None
        self._tick_at_us = 0
        self._closing = asyncio.Event()
        self._letters = 0
        self.on_letter: Callable[[], None] = _nothing
        store.on_fault = self._reset_polls
        store.on_open = self._on_tick

    async def ask(self, command: Command) -> Any:
        """The outcome of a command once it is durable; raises the `Problem` that refused it."""
        return await self._group.submit(command)

    def submit(self, command: Command) -> "asyncio.Future[Any]":
        """Queue a command, so that many of one request enter the same group."""
        return self._group.submit(command)

    async def poll(
        self,
        recipient: str,
        count: int,
        wait_seconds: float,
        poll_id: str = "",
        lost: tuple[str, ...] = (),
        acks: Ack | None = None,
    ) -> Polled:
        """Up to `count` messages, waiting for the first. A caller that is cancelled gives its leases back free.

        `acks` share the commit of the hand-over, and come before it. Where one is refused, nothing is waited for: who
        polls must know of it.
        """
        gone = asyncio.Event()
        ticket = next(self._tickets)
        claim = Claim(recipient, count, ticket, wait_seconds > 0 and not self._closing.is_set(), poll_id, lost)
        polling = asyncio.ensure_future(self._poll(claim, wait_seconds, gone, acks))
        self._keep(polling)
        try:
            return await asyncio.shield(polling)
        except asyncio.CancelledError:
            gone.set()
            polling.add_done_callback(lambda done: self._undo(recipient, done))
            raise

    def give_back(self, recipient: str, handed: list[HandedOver]) -> None:
        """These hand-overs did not reach their receiver."""
        if handed:
            ids = tuple(message.delivery_id for message in handed)
            self._keep(self._group.submit(GiveBack(recipient, ids)))

    def _reset_polls(self) -> None:
        """The store was thrown away with its parked polls: answer them empty, so that they ask again."""
        for parked in self._parked.values():
            if not parked.done():
                parked.set_result([])

    async def close(self) -> None:
        """Answer open polls, and wait until everything that was asked is durable."""
        self._closing.set()
        self._store.begin_close()
        if self._tick is not None:
            self._tick.cancel()
        while self._background:
            await asyncio.wait(self._background)
        await self._group.drained()

    async def _poll(self, claim: Claim, wait_seconds: float, gone: asyncio.Event, acks: Ack | None) -> Polled:
        parked: asyncio.Future[list[HandedOver]] = asyncio.get_running_loop().create_future()
        self._parked[claim.ticket] = parked
        acking = None if acks is None else self.submit(acks)
        try:
            handed = await self.ask(claim)  # submitted in one turn with the acks, and after them
            acked = None if acking is None else _acked(acking)
            if handed is not None:
                return Polled(list(handed), acked)
            await self._wait(parked, gone, 0.0 if isinstance(acked, Problem) else wait_seconds)
            if not parked.done():
                await self.ask(Unpark(claim.recipient, claim.ticket))
            return Polled(parked.result() if parked.done() else [], acked)
        finally:
            del self._parked[claim.ticket]
            if acking is not None:
                self._keep(acking)

    async def _wait(self, parked: "asyncio.Future[Any]", gone: asyncio.Event, seconds: float) -> None:
        enders = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(self._closing.wait())]
        try:
            await asyncio.wait({parked, *enders}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for ender in enders:
                ender.cancel()

    def _undo(self, recipient: str, polling: "asyncio.Future[Polled]") -> None:
        if not polling.cancelled() and polling.exception() is None:
            self.give_back(recipient, polling.result().handed)

    async def _apply(self, commands: list[Command]) -> list[Any]:
        committed = await self._store.apply(commands)
        for ticket, recipient, handed in committed.handed_over:
            parked = self._parked.get(ticket)
            if parked is None or parked.done():
                self.give_back(recipient, handed)
            else:
                parked.set_result(handed)
        self._schedule(committed.next_due_us)
        if committed.letters > self._letters:
            self._letters = committed.letters
            self.on_letter()
        return committed.outcomes

    def _schedule(self, due_us: int | None) -> None:
        if due_us is None or self._closing.is_set():
            return
        if self._tick is not None:
            if due_us >= self._tick_at_us:
                return
            self._tick.cancel()
        delay = max((due_us - self._clock.steady_us()) / MICROSECONDS, _TICK_SECONDS_MIN)
        self._tick_at_us = due_us
        self._tick = asyncio.get_running_loop().call_later(delay, self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        self._keep(self._group.submit(Tick()))

    def _keep(self, future: "asyncio.Future[Any]") -> None:
        self._background.add(future)
        future.add_done_callback(self._forget)

    def _forget(self, future: "asyncio.Future[Any]") -> None:
        self._background.discard(future)
        if not future.cancelled():
            future.exception()  # a failed store has logged it; here it only must not be called unread


def _acked(acking: "asyncio.Future[list[str]]") -> list[str] | Problem:
    """The outcome of acks that are committed; raises what is no refusal."""
    try:
        return acking.result()
    except Problem as problem:
        return problem
