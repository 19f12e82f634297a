"""The direct path of a send, and the turn to the outbox when it fails.

One request is in flight at a time; sends that come meanwhile wait and leave together with the next one, in order of
arrival. A send touches the sidecar's own store only when the adapter cannot be reached. Order holds throughout:

- while earlier sends are on the direct path, a later one joins them there;
- when the direct path fails, everything on it enters the outbox at once, in order;
- while anything is in the outbox, later sends enter it too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice

from shared.problems import Problem
from sidecar.breaker import LinkBreaker
from sidecar.core.drafts import Draft, count_to_send
from sidecar.core.link_outcome import Outcome, Verdict, must_wait, refused
from sidecar.counters import Counters
from sidecar.store.outbox import Outbox
from sidecar.submitter import Submitter

_log = logging.getLogger(__name__)

_Waiting = tuple[Draft, "asyncio.Future[Outcome]"]

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

    def send(self, draft: Draft) -> "asyncio.Future[Outcome]":
        """Send in order of calls. Cancelling the future does not call the message back."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, outcome))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return outcome

    async def drained(self) -> None:
        """Wait until every send has left or is on its way into the outbox."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting and self._breaker.closed and not self._outbox.occupied:
                count = count_to_send(len(draft.encoded) for draft, _ in self._waiting)
                batch = list(islice(self._waiting, count))
                outcomes = await self._submit([draft for draft, _ in batch])
                del self._waiting[:count]
                self._settle(batch, outcomes)
            rest, self._waiting = self._waiting, []
            for draft, future in rest:
                self._queue(draft, future)
        finally:
            self._task = None

    async def _submit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        try:
            return await self._submitter.submit(drafts)
        except Exception:
            _log.exception("submit-failed: the batch goes to the outbox")
            return [Outcome(Verdict.UNKNOWN, 0)] * len(drafts)

    def _settle(self, batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        """Answer what is settled; the rest enters the outbox here and now, before any later send can."""
        for (draft, future), outcome in zip(batch, outcomes, strict=True):
            if must_wait(outcome):
                self._queue(draft, future)
            else:
                self._count(outcome)
                _resolve(future, outcome)

    def _queue(self, draft: Draft, future: "asyncio.Future[Outcome]") -> None:
        try:
            self._check_recipient(draft.envelope["to"])
        except Problem as problem:
            self._counters.sends_refused += 1
            _resolve(future, refused(problem))
            return

        def queued(committed: "asyncio.Future[Outcome]") -> None:
            self._count(committed.result())
            _resolve(future, committed.result())

        self._outbox.add(draft).add_done_callback(queued)

    def _count(self, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.ACCEPTED:
            self._counters.sends_refused += 1
        elif outcome.code == 202:
            self._counters.sends_queued += 1
        else:
            self._counters.sends_accepted += 1


def _resolve(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
