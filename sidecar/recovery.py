"""Recovery: when the adapter is back, tell it the deferred acknowledgements, then drain the outbox in order.

Where it says when to come again, because the agent was too fast or a recipient's queue is full, the drain waits and
goes on (ADR 10). Acknowledgements that are deferred meanwhile do not wait for it. Where there is no room left for one
more that is refused, nothing is sent until somebody has decided about those that were (ADR 27).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import backoff

from shared.limits import BATCH_MESSAGES_MAX
from shared.link import ACK_PATH, OPEN_PATH
from shared.problems import Problem
from shared.strict_json import encode
from shared.times import from_iso
from sidecar.breaker import LinkBreaker
from sidecar.core.ack_bodies import ack_body
from sidecar.core.drain import COUNT_FIRST, Plan, is_fault, next_count, plan
from sidecar.core.link_outcome import UNSETTLED, Outcome, refused
from sidecar.core.pacing import Pause
from sidecar.counters import Counters
from sidecar.link import Link
from sidecar.store.deferred_acks import DeferredAck, DeferredAcks
from sidecar.store.outbox import Outbox, older_than
from sidecar.store.outbox_units import Entry
from sidecar.submitter import Submitter

_log = logging.getLogger(__name__)


def _overdue() -> Problem:
    detail = "It waited in the outbox for so long that the adapter may have forgotten whether it has it. Send it anew."
    return Problem("expired", detail)


class Recovery:
    """Runs at most once at a time, for as long as it gets on; the health poller starts it again.

    `direct_ended` waits until no send is on the direct path: one that was sent after it must not overtake it from here.
    """

    def __init__(
        self,
        link: Link,
        submitter: Submitter,
        outbox: Outbox,
        deferred: DeferredAcks,
        breaker: LinkBreaker,
        counters: Counters,
        direct_ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._link = link
        self._submitter = submitter
        self._outbox = outbox
        self._deferred = deferred
        self._breaker = breaker
        self._counters = counters
        self._direct_ended = direct_ended
        self._faults: dict[int, int] = {}
        self._count = COUNT_FIRST
        self._count_paced = BATCH_MESSAGES_MAX
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The adapter is ready: recover, unless nothing waits or recovery runs already."""
        if self._task is None and (self._outbox.occupied or self._deferred.depth):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End it where it is; what was sent and not yet settled is sent again by the next process."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        self._count, self._count_paced = COUNT_FIRST, BATCH_MESSAGES_MAX
        try:
            while await self._tell_acks() and self._outbox.occupied and self._breaker.closed:
                if not await self._drain_batch():
                    break
        except Problem as problem:
            _log.warning("recovery-paused: %s", problem)
        except Exception:
            _log.exception("recovery-failed")
        finally:
            self._task = None

    async def _drain_batch(self) -> bool:
        """Send the oldest; whether to go on."""
        if self._outbox.is_stopped:
            return False
        await self._direct_ended()
        async with self._outbox.taken(min(self._count, self._count_paced)) as entries:
            settled = await self._send(entries)
        if settled is None:
            await self._outbox.arrived()
            return True
        if settled.pause is not None:
            await self._pause(settled.pause)
        return settled.proceed

    async def _send(self, entries: Sequence[Entry]) -> Plan | None:
        """Send these, or set aside those of them that have waited for too long; None where there is none."""
        if not entries:
            return None
        overdue = self._outbox.overdue(entries)
        if overdue and (overdue := older_than(overdue, await self._forgotten_us())):
            return await self._settle(overdue, [refused(_overdue())] * len(overdue))
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcomes = await self._submitter.submit([entry.draft for entry in entries])
        self._count = next_count(self._count, loop.time() - began)
        return await self._settle(entries, outcomes)

    async def _forgotten_us(self) -> int:
        """Before when the adapter may have forgotten what it had. Only it knows: this clock may be wrong."""
        answer = (await self._link.call("GET", OPEN_PATH)).expect()
        return from_iso(answer["forgotten_before"])

    async def _pause(self, pause: Pause) -> None:
        """Never shorter than asked for, and not in step with other sidecars."""
        self._count_paced = pause.count
        await asyncio.sleep(pause.seconds + backoff.full_jitter(pause.seconds / 2))

    async def _settle(self, entries: Sequence[Entry], outcomes: Sequence[Outcome]) -> Plan:
        """Record the outcomes."""
        settled = plan(outcomes, [self._faults.get(entry.id, 0) for entry in entries])
        dead = [(entries[position], outcomes[position].problem or {}) for position in settled.dead]
        for entry, problem in dead:
            _log.warning("outbox-buried: %s was refused: %s", entry.draft.key, problem.get("type"))
        await self._outbox.settle([entries[position] for position in settled.done], dead)
        self._counters.outbox_drained += len(settled.done)
        self._counters.outbox_buried += len(dead)
        self._faults = {
            entry.id: self._faults.get(entry.id, 0) + 1
            for position, (entry, outcome) in enumerate(zip(entries, outcomes, strict=True))
            if is_fault(outcome) and position not in settled.dead
        }
        return settled

    async def _tell_acks(self) -> bool:
        """Whether the adapter has heard all of them, or will never take the rest."""
        while self._deferred.depth and (acks := await self._deferred.head()):
            if not await self._tell(acks):
                return False
        return True

    async def _tell(self, acks: Sequence[DeferredAck]) -> bool:
        """Acknowledge upstream. A hand-over that is over (409) needs no word more; an unknown one (404) is told apart
        from its neighbours, which the adapter left alone. Memory of what was processed absorbs what comes again."""
        answer = await self._link.call("POST", ACK_PATH, encode(ack_body(dict(acks))))
        if answer.verdict in UNSETTLED:
            return False
        if answer.status == 404 and len(acks) > 1:
            for ack in acks:
                if not await self._tell([ack]):
                    return False
            return True
        await self._deferred.remove([ack.delivery_id for ack in acks])
        return True
