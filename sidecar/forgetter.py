"""Forgetting: processed keys that nothing can bring back, and the space they took.

What the agent has processed may be handed over again for as long as the adapter has a live delivery or an open dead
letter of it, however old that is: an acknowledgement may have waited for weeks, or been lost. So the adapter is asked
which those are before anything is forgotten, and while it does not answer nothing is.
"""

import asyncio
import contextlib
from typing import Final

from shared.clock import Clock
from shared.database import give_back, read_space
from shared.free_space import pages_to_give_back
from shared.link import OPEN_PATH
from shared.problems import Problem
from sidecar.link import Link
from sidecar.store.processed import MessageKey, forget, old_records
from sidecar.store.store import Store, Unit

_PAUSE_SECONDS: Final = 3_600.0
"""How often; nothing rests on it but the size of the file."""

_GIVE_BACK_PAGES: Final = 256
"""Of one step, in a transaction that sends may share: 2 MB."""


class Forgetter:
    """Forgets now and then, for as long as the process lives."""

    def __init__(self, store: Store, link: Link, clock: Clock) -> None:
        self._store = store
        self._link = link
        self._clock = clock

    async def run(self) -> None:
        """For ever; cancel it to end it."""
        while True:
            with contextlib.suppress(Problem):  # the store fails, or the adapter is away: there is a next time
                await self.forget()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def forget(self) -> None:
        """Once. Raises a `Problem` where the store fails, or the adapter does not say what is open."""
        now_us = self._clock.wall_us()
        records = await old_records(self._store, now_us)
        kept = await self._open() if records else set()
        while records:
            gone = [record_id for record_id, key in records if _same_case(key) not in kept]
            await self._store.commit(forget(gone))
            records = await old_records(self._store, now_us, after=records[-1][0])
        spare = await self._store.read(lambda connection: pages_to_give_back(*read_space(connection)))
        for left in range(spare, 0, -_GIVE_BACK_PAGES):
            await self._store.commit(_giving_back(min(left, _GIVE_BACK_PAGES)))

    async def _open(self) -> set[MessageKey]:
        """The messages that can still be handed over to this agent."""
        found: set[MessageKey] = set()
        after: int | None = 0
        while after is not None:
            page = (await self._link.call("GET", f"{OPEN_PATH}?after={after}")).expect()
            found |= {MessageKey(each["sender"], each["idempotency_key"]) for each in page["messages"]}
            after = page["next"]
        return found


def _same_case(key: MessageKey) -> MessageKey:
    """As the adapter writes keys; senders may write them otherwise."""
    return key._replace(idempotency_key=key.idempotency_key.lower())


def _giving_back(pages: int) -> Unit[None]:
    return lambda connection: give_back(connection, pages)
