"""The direct path of a send, and the turn to the outbox when it fails.

One request is in flight at a time; sends that come meanwhile wait and leave together with the next one, in order of
arrival. A send touches the sidecar's own store only when the adapter cannot be reached. Order holds throughout:

- while earlier sends are on the direct path, a later one joins them there;
- when the direct path fails, everything on it enters the outbox at once, in order;
- while anything is in the outbox, later sends enter it too.

An agent that is faster than it may be is slowed down here: what the adapter refuses as `rate-limited` waits, and what
came after it behind it, and is sent again. What would wait for too long makes everything enter the outbox.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from itertools import islice

from shared.limits import BATCH_MESSAGES_MAX
from shared.problems import Problem
from sidecar.breaker import LinkBreaker
from sidecar.core.drafts import Draft, count_to_send
from sidecar.core.link_outcome import (
    UNSETTLED,
    Outcome,
    Verdict,
    first_unsettled,
    is_too_fast,
    must_wait,
    refused,
)
from sidecar.core.pacing import DIRECT_WAIT_SECONDS_MAX, Pause, pause
from sidecar.counters import Counters
from sidecar.store.outbox import Outbox
from sidecar.submitter import Submitter

_log = logging.getLogger(__name__)

_Waiting = tuple[Draft, "asyncio.Future[Outcome]", float]
"""What is to be sent, whom to tell, and when it came, in the loop's seconds."""

CheckRecipient = Callable[[str], None]
"""Raises `unknown-recipient` for what the configuration does not know."""


class Sender:
    """Takes drafts and gives each an outcome: accepted, queued, or refused; never a loss."""

    def __init__(
        self,
        submitter: Submitter,
        outbox: Outbox,
        breaker: LinkBreaker,
        check_recipient: CheckRecipient,
        counters: Counters,
    ) -> None:
        self._submitter = submitter
        self._outbox = outbox
        self._breaker = breaker
        self._check_recipient = check_recipient
        self._counters = counters
        self._waiting: list[_Waiting] = []  # bounded by the agent's open requests: each holds its place in one
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def send(self, draft: Draft) -> "asyncio.Future[Outcome]":
        """Send in order of calls. Cancelling the future does not call the message back."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((draft, outcome, loop.time()))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return outcome

    def stop(self) -> None:
        """The process ends: what waits because its agent was too fast enters the outbox."""
        self._stopping.set()

    async def drained(self) -> None:
        """Wait until every send has left or is on its way into the outbox."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        together = BATCH_MESSAGES_MAX
        try:
            while self._waiting and self._breaker.closed and not self._outbox.occupied:
                slower = await self._send_batch(together)
                if slower is not None:
                    together = slower.count
                    if not await self._wait(slower):
                        break
            rest, self._waiting = self._waiting, []
            for draft, future, _ in rest:
                self._queue(draft, future)
        finally:
            self._task = None

    async def _send_batch(self, together: int) -> Pause | None:
        """Send what is first in line. A pause when the agent is too fast: then what was not taken is first again."""
        count = count_to_send(len(draft.encoded) for draft, _, _ in islice(self._waiting, together))
        batch = self._waiting[:count]
        outcomes = await self._submit([draft for draft, _, _ in batch])
        first = first_unsettled(outcomes)
        slower = pause(first, len(self._waiting)) if first is not None and is_too_fast(first) else None
        if slower is None:
            del self._waiting[:count]
            self._settle(batch, outcomes)
            return None
        results = list(zip(batch, outcomes, strict=True))
        self._waiting[:count] = [entry for entry, outcome in results if outcome.verdict in UNSETTLED]
        for (_, future, _), outcome in results:
            if outcome.verdict not in UNSETTLED:
                self._answer(future, outcome)
        return slower

    async def _wait(self, slower: Pause) -> bool:
        """Wait for the rate; false when the first in line would then have waited for too long."""
        _, _, arrived_at = self._waiting[0]
        if asyncio.get_running_loop().time() + slower.seconds > arrived_at + DIRECT_WAIT_SECONDS_MAX:
            return False
        self._counters.sends_slowed += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), slower.seconds)
        return not self._stopping.is_set()

    async def _submit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        try:
            return await self._submitter.submit(drafts)
        except Exception:
            _log.exception("submit-failed: the batch goes to the outbox")
            return [Outcome(Verdict.UNKNOWN, 0)] * len(drafts)

    def _settle(self, batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        """Answer what is settled; the rest enters the outbox here and now, before any later send can."""
        for (draft, future, _), outcome in zip(batch, outcomes, strict=True):
            if must_wait(outcome):
                self._queue(draft, future)
            else:
                self._answer(future, outcome)

    def _queue(self, draft: Draft, future: "asyncio.Future[Outcome]") -> None:
        try:
            self._check_recipient(draft.envelope["to"])
        except Problem as problem:
            self._counters.sends_refused += 1
            _resolve(future, refused(problem))
            return

        self._outbox.add(draft).add_done_callback(lambda committed: self._answer(future, committed.result()))

    def _answer(self, future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
        self._count(outcome)
        _resolve(future, outcome)

    def _count(self, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.ACCEPTED:
            self._counters.sends_refused += 1
        elif outcome.code == HTTPStatus.ACCEPTED and (outcome.answer or {}).get("status") == "queued":
            self._counters.sends_queued += 1
        else:
            self._counters.sends_accepted += 1


def _resolve(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
