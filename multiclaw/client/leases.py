"""Keeping leases alive while their messages wait or are worked on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from multiclaw.client.errors import MulticlawError, StaleLease
from multiclaw.client.messages import Message, lease_seconds
from multiclaw.client.retry import RetryPolicy

_log = logging.getLogger(__name__)

_LEASE_SECONDS_USUAL: Final = 30.0
_LEASE_SECONDS_MAX: Final = 3_600.0
_EXTEND_AFTER_SECONDS_MAX: Final = 10.0
"""A third of the usual lease. The lease's length is read from the wall clock; were that stepped, waiting a third of a
wrong length could be too long."""
_IDS_MAX: Final = 100
"""Deliveries that one request may name."""

Extend = Callable[[list[str], float, RetryPolicy], Awaitable[Any]]


@dataclass(slots=True)
class _Lease:
    seconds: float
    until: float


class LeaseKeeper:
    """Extends, at a third of their length, the leases of the messages it holds.

    Its task lives while there is something to hold. A message whose lease was lost is no longer live: it was or will
    be handed over again and must not be worked on.
    """

    def __init__(self, extend: Extend) -> None:
        self._extend = extend
        self._held: dict[str, _Lease] = {}
        self._task: asyncio.Task[None] | None = None

    def hold(self, messages: Iterable[Message]) -> None:
        """Keep these from now on."""
        now, wall = asyncio.get_running_loop().time(), datetime.now(UTC)
        for message in messages:
            seconds = lease_seconds(message, wall)
            if not 0 < seconds <= _LEASE_SECONDS_MAX:
                seconds = _LEASE_SECONDS_USUAL
            self._held[message.delivery_id] = _Lease(seconds, now + seconds)
        if self._held and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._keep())

    def is_live(self, message: Message) -> bool:
        """Whether its lease is held and has not ended."""
        lease = self._held.get(message.delivery_id)
        return lease is not None and asyncio.get_running_loop().time() < lease.until

    def let_go(self, message: Message) -> bool:
        """Extend it no more; whether it was live."""
        live = self.is_live(message)
        self._held.pop(message.delivery_id, None)
        return live

    async def close(self) -> None:
        """Let all go."""
        self._held.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _keep(self) -> None:
        while self._held:
            shortest = min(lease.seconds for lease in self._held.values())
            after = min(shortest / 3, _EXTEND_AFTER_SECONDS_MAX)
            await asyncio.sleep(after)
            ids = list(self._held)
            for start in range(0, len(ids), _IDS_MAX):
                await self._extend_some(ids[start : start + _IDS_MAX], RetryPolicy(retry_seconds=after))

    async def _extend_some(self, ids: list[str], retry: RetryPolicy) -> None:
        """Extend what is still held. A stale one spoils the request for all, so it is left out of the next."""
        while ids := [delivery_id for delivery_id in ids if delivery_id in self._held]:
            seconds = max(self._held[delivery_id].seconds for delivery_id in ids)
            asked = asyncio.get_running_loop().time()
            try:
                await self._extend(ids, seconds, retry)
            except StaleLease as error:
                for delivery_id in set(error.stale) & set(ids) or ids:
                    self._held.pop(delivery_id, None)
                continue
            except MulticlawError as error:
                _log.warning("leases could not be extended: %s", error)
                return
            for delivery_id in ids:
                if lease := self._held.get(delivery_id):
                    lease.until = asked + seconds
            return
