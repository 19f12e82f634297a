"""Receiving: what reaches the agent, once, and what comes back when it does not.

A poll goes upstream for as long as the agent waits. When the adapter has gone away it waits here for as long as a
restart may take, and goes upstream when the probe has found the adapter again: an agent that waits does not notice a
restart. A message the agent has processed before is acknowledged from memory. If the agent goes away, its poll upstream
is closed, so that the adapter hands nothing to a ghost; what had arrived by then is released. A poll may carry acks: a
trip and a sync less than with a request of their own.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from shared.api import AckRequest
from shared.link import POLL_PATH
from shared.problems import Problem
from shared.strict_json import encode
from shared.times import MICROSECONDS
from sidecar.acknowledger import Acknowledger
from sidecar.breaker import LinkBreaker
from sidecar.core.ack_bodies import of_carried
from sidecar.core.hand_over import Handed, read_hand_over, read_losses
from sidecar.core.link_outcome import LinkAnswer, Verdict
from sidecar.counters import Counters
from sidecar.link import Link
from sidecar.store.processed import MessageKey, recall, stand
from sidecar.store.seen import Seen
from sidecar.store.store import Store

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 1.0

_POLL_ID_BYTES: Final = 4
"""Enough to tell apart the polls that one agent can have open or lost."""

_LOST_MAX: Final = 16
"""Lost polls that the next one names, as many as the link takes; hand-overs to older ones wait for their leases."""


RESTART_SECONDS: Final = 10.0
"""Promise 9: a restart of the adapter takes less. An absence that lasts longer is told to agents at once."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """What the agent is given."""

    handed: Sequence[Handed]
    gaps: list[dict[str, Any]]
    acks: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        """As a `PollAnswer`; with acks, as a `ReceiveAnswer`."""
        answer = {"messages": [handed.delivery for handed in self.handed], "gaps": self.gaps}
        return answer if self.acks is None else answer | {"acks": self.acks}


class Receiver:
    """Polls on the agent's behalf."""

    def __init__(
        self,
        link: Link,
        breaker: LinkBreaker,
        store: Store,
        seen: Seen,
        acknowledger: Acknowledger,
        counters: Counters,
    ) -> None:
        self._link = link
        self._breaker = breaker
        self._store = store
        self._seen = seen
        self._acknowledger = acknowledger
        self._counters = counters
        self._lost: list[str] = []
        self._background: set[asyncio.Task[None]] = set()
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def adapter_is_ready(self) -> None:
        """A probe has just found it so: polls that wait for it go on."""
        ready, self._ready = self._ready, asyncio.get_running_loop().create_future()
        ready.set_result(None)

    async def poll(self, wait_seconds: float, count: int) -> PollResult:
        """Up to `count` messages, waiting up to `wait_seconds` for the first. `adapter-unreachable` when the adapter is
        away until then, or has been for `RESTART_SECONDS`."""
        loop = asyncio.get_running_loop()
        due = loop.time() + wait_seconds
        while True:
            try:
                arrived = await self._fetch(max(0.0, due - loop.time()), count)
            except Problem as problem:
                if not await self._is_back(problem, due):
                    raise
                continue
            fresh, absorbed = await self._absorb(arrived)
            if fresh or not absorbed or loop.time() >= due:
                return self._hand(arrived, fresh)

    async def receive(self, acks: AckRequest, wait_seconds: float, count: int) -> PollResult:
        """A poll that carries acks, which are durable here before it leaves. Its result tells what became of them, and
        so does the `Problem` of one that could not be made: its member `acks` is the `AckOutcome`.

        It is not repeated where all that came was absorbed: the agent waits for the outcome.
        """
        due = asyncio.get_running_loop().time() + wait_seconds
        carrier = _Carrier(self._ask, wait_seconds, count)
        outcome = await self._carry(acks, carrier)
        try:
            result = await self._come_with_acks(carrier.answer, due, count)
        except Problem as problem:
            problem.extra["acks"] = outcome
            raise
        return replace(result, acks=outcome)

    async def _come_with_acks(self, answer: LinkAnswer | None, due: float, count: int) -> PollResult:
        """What the answer to a poll with acks holds; where the adapter was away then, what a poll after it gives."""
        try:
            arrived = self._read(answer)
        except Problem as problem:
            if not await self._is_back(problem, due):
                raise
            return await self.poll(max(0.0, due - asyncio.get_running_loop().time()), count)
        fresh, _ = await self._absorb(arrived)
        return self._hand(arrived, fresh)

    async def _carry(self, acks: AckRequest, carrier: "_Carrier") -> dict[str, Any]:
        """What became of the acks; raises the `Problem` of those that did not leave."""
        try:
            return {"code": int(HTTPStatus.OK), "answer": await self._acknowledger.acknowledge(acks, carrier)}
        except Problem as problem:
            if not carrier.left:
                problem.field = problem.field and f"/acks{problem.field}"
                raise
            return {"code": problem.status, "problem": problem.document()}
        except BaseException:
            if carrier.answer is not None:
                self._give_back(read_hand_over(carrier.answer.document or {})[0])
            raise

    def undelivered(self, result: PollResult) -> None:
        """The agent was gone before it got this: give the messages back, and keep the gaps for the next poll."""
        self._seen.untold(result.gaps)
        self._give_back(result.handed)

    def stop(self) -> None:
        """Answer every open poll now."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def stopped(self) -> None:
        """Wait, not long, until what was to be given back is."""
        if self._background:
            await asyncio.wait(self._background, timeout=_STOP_SECONDS)

    async def _is_back(self, problem: Problem, due: float) -> bool:
        """Where a poll failed for the adapter's absence: whether a probe finds it ready before `due`."""
        left = min(due - asyncio.get_running_loop().time(), RESTART_SECONDS - self._breaker.away_us() / MICROSECONDS)
        if problem.kind != "adapter-unreachable" or left <= 0:
            return False
        ready = self._ready
        await asyncio.wait({ready, self._stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return ready.done() and not self._stopping.done()

    async def _fetch(self, wait_seconds: float, count: int) -> list[Handed]:
        return self._read(await self._ask(wait_seconds, count))

    async def _ask(self, wait_seconds: float, count: int, acks: dict[str, Any] | None = None) -> LinkAnswer | None:
        """The answer to one poll upstream; None when the process stops before it is there."""
        poll_id = secrets.token_hex(_POLL_ID_BYTES)
        lost = self._lost[-_LOST_MAX:]
        asked = {"wait": round(wait_seconds, 3), "max": count, "poll": poll_id, "lost": lost}
        asked |= {"restores": self._seen.restores} if self._seen.restores else {}
        body = encode(asked if acks is None else asked | {"acks": acks})
        give_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        exchange = asyncio.ensure_future(
            self._link.call("POST", POLL_PATH, body, wait_seconds=wait_seconds, give_up=give_up)
        )
        exchange.add_done_callback(lambda done: self._note_lost(poll_id, lost, done))
        first: set[asyncio.Future[Any]] = {exchange, self._stopping}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._spawn(self._abandon(exchange, give_up))
            raise
        if not exchange.done():
            self._spawn(self._abandon(exchange, give_up))
            return None
        return exchange.result()

    def _read(self, answer: LinkAnswer | None) -> list[Handed]:
        """The hand-overs of a poll's answer, of which losses are noted; raises the `Problem` of one without."""
        if answer is None:
            return []
        handed, unreadable = read_hand_over(answer.expect())
        if unreadable:
            _log.error("hand-over-unreadable: %d messages; their leases will lapse", unreadable)
        restores, ranges = read_losses(answer.document or {})
        if restores > self._seen.restores:
            self._seen.lost(restores, ranges)
        return handed

    def _note_lost(self, poll_id: str, told: list[str], exchange: "asyncio.Future[LinkAnswer]") -> None:
        """Remember a poll whose answer may have been lost on the way; forget those the adapter has been told of."""
        verdict = Verdict.UNKNOWN if exchange.cancelled() else exchange.result().verdict
        if verdict is Verdict.UNKNOWN:
            self._lost = [*self._lost, poll_id][-_LOST_MAX:]
        elif verdict is Verdict.ACCEPTED:
            self._lost = [each for each in self._lost if each not in told]

    async def _absorb(self, arrived: list[Handed]) -> tuple[list[Handed], bool]:
        """What the agent has not processed yet, and whether anything else was acknowledged for it."""
        if not arrived:
            return [], False
        try:
            keys = [_message_key(handed) for handed in arrived]
            known = await recall(self._store, keys)
            while await self._acknowledger.settled(keys):
                known = await recall(self._store, keys)
            if known:
                known = await self._store.commit(stand(known))
        except BaseException:
            self._give_back(arrived)
            raise
        processed = {handed.delivery_id: known[key] for handed in arrived if (key := _message_key(handed)) in known}
        if not processed:
            return arrived, False
        self._counters.deliveries_absorbed += len(processed)
        fresh = [handed for handed in arrived if handed.delivery_id not in processed]
        telling = self._spawn(self._acknowledger.tell_again(processed))
        if not fresh:  # what is not acknowledged yet would only be handed over again
            await asyncio.wait({telling})
        return fresh, True

    def _hand(self, arrived: Iterable[Handed], fresh: list[Handed]) -> PollResult:
        gaps = self._seen.arrived((handed.channel, handed.sequence) for handed in arrived)
        self._acknowledger.handed_out(fresh)
        self._counters.deliveries_handed += len(fresh)
        self._counters.gaps_found += len(gaps)
        return PollResult(fresh, gaps)

    async def _abandon(self, exchange: "asyncio.Future[LinkAnswer]", give_up: "asyncio.Future[None]") -> None:
        """Close a poll nobody waits for. What the adapter had handed over by then still comes, and is given back."""
        give_up.set_result(None)
        document = (await exchange).document
        if document is not None:
            self._give_back(read_hand_over(document)[0])

    def _give_back(self, handed: Iterable[Handed]) -> None:
        ids = [each.delivery_id for each in handed]
        if ids:
            self._counters.deliveries_released += len(ids)
            self._spawn(self._acknowledger.release(ids))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class _Carrier:
    """Tells the adapter of acks by a poll. `left` once it was sent; `answer` is that to the poll."""

    def __init__(self, ask: Callable[..., Awaitable[LinkAnswer | None]], wait_seconds: float, count: int) -> None:
        self._ask = ask
        self._wait_seconds = wait_seconds
        self._count = count
        self.left = False
        self.answer: LinkAnswer | None = None

    async def __call__(self, acks: dict[str, Any]) -> LinkAnswer:
        """The answer to the acks alone."""
        self.left = True
        self.answer = await self._ask(self._wait_seconds, self._count, acks)
        return LinkAnswer(Verdict.UNKNOWN) if self.answer is None else of_carried(self.answer)


def _message_key(handed: Handed) -> MessageKey:
    return MessageKey(handed.sender, handed.idempotency_key)
