"""Acknowledging: what the agent has done with a message becomes durable here before the adapter is told.

The order matters. The processed key is committed first, so that a message whose acknowledgement is lost on the way, or
waits for an adapter that is down, is never given to the agent again. An acknowledgement that is refused (its lease had
ended) changes nothing: the key is forgotten, since the agent is told that the message comes again. This holds over a
crash of the sidecar as well: the record names its hand-over. Only one that the agent has a 2xx for, or that has
absorbed a later hand-over, stands, whatever the adapter says of it later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from shared.api import AckRequest
from shared.clock import Clock
from shared.link import ACK_PATH, EXTEND_PATH, NACK_PATH
from shared.problems import Problem
from shared.results import encoded_results
from shared.strict_json import encode
from sidecar.core.ack_bodies import ack_body, told
from sidecar.core.hand_over import Handed
from sidecar.core.handed_out import HandedOut
from sidecar.core.link_outcome import LINK_FAILURES, LinkAnswer, unreachable
from sidecar.counters import Counters
from sidecar.link import Link
from sidecar.store.deferred_acks import DeferredAcks
from sidecar.store.processed import MessageKey, Processed, of_hand_overs, remember, stand, take_back
from sidecar.store.seen import Seen
from sidecar.store.store import Store

Tell = Callable[[dict[str, Any]], Awaitable[LinkAnswer]]
"""Brings an `AckRequest` to the adapter, and gives the answer to it."""


class Acknowledger:
    """Takes acks, nacks and extensions; knows which message each hand-over of this process was."""

    def __init__(
        self, link: Link, store: Store, seen: Seen, deferred: DeferredAcks, clock: Clock, counters: Counters
    ) -> None:
        self._link = link
        self._store = store
        self._seen = seen
        self._deferred = deferred
        self._clock = clock
        self._counters = counters
        self._handed: HandedOut[MessageKey] = HandedOut()
        self._under_way: dict[MessageKey, asyncio.Future[None]] = {}

    def handed_out(self, handed: Iterable[Handed]) -> None:
        """These go to the agent, which will speak of them by delivery id only."""
        for each in handed:
            self._handed.add(each.delivery_id, MessageKey(each.sender, each.idempotency_key))

    async def acknowledge(self, request: AckRequest, tell: Tell | None = None) -> dict[str, Any]:
        """The `AckAnswer`. While the adapter is away the ids are `deferred`; its refusals are passed on.

        The adapter is told by `tell`, or else in a request of its own.
        """
        given = encoded_results(request)
        results = {delivery_id: given.get(delivery_id) for delivery_id in request.delivery_ids}
        keys = await self._messages(results)
        while await self.settled(keys.values()):
            keys = await self._messages(results)
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.update(dict.fromkeys(keys.values(), decided))
        try:
            return await self._acknowledge(results, keys, tell or self._tell)
        finally:
            for key in keys.values():
                del self._under_way[key]
            decided.set_result(None)

    async def settled(self, keys: Iterable[MessageKey]) -> bool:
        """Wait for the acknowledgements of these messages that are under way; false at once where there are none.

        Until then it is open whether the messages are processed, so they are neither handed out nor absorbed.
        """
        waiting = {self._under_way[key] for key in keys if key in self._under_way}
        if waiting:
            await asyncio.wait(waiting)
        return bool(waiting)

    async def _messages(self, delivery_ids: Collection[str]) -> dict[str, MessageKey]:
        """The messages that these hand-overs acknowledge. A hand-over of an earlier process does where that process
        had recorded it already, and died before it could tell the agent what came of it."""
        keys = dict(self._handed.newest(delivery_ids))
        unknown = self._handed.unknown(delivery_ids)
        return keys | await of_hand_overs(self._store, unknown) if unknown else keys

    async def _acknowledge(
        self, results: Mapping[str, bytes | None], keys: Mapping[str, MessageKey], tell: Tell
    ) -> dict[str, Any]:
        await self._remember([Processed(key, delivery_id, results[delivery_id]) for delivery_id, key in keys.items()])
        answer = await tell(ack_body(results))
        if answer.verdict in LINK_FAILURES:
            return await self._defer(results, keys)
        document = answer.document or {}
        acked = set(document.get("acked", ()))
        refused = {delivery_id: key for delivery_id, key in keys.items() if delivery_id not in acked}
        standing = await self._store.commit(take_back(refused)) if refused else set()
        return told(answer, results, acked, standing)

    async def _defer(self, results: Mapping[str, bytes | None], keys: Mapping[str, MessageKey]) -> dict[str, Any]:
        """Keep acknowledgements until the adapter is back; raises a `Problem` for those that cannot be promised.

        What an earlier process handed out and did not record cannot: were its lease to lapse meanwhile, the message
        would reach the agent again after a 2xx.
        """
        kept = {delivery_id: results[delivery_id] for delivery_id in keys}
        known = not set(self._handed.unknown(results)) - keys.keys()
        if kept and known:
            await self._store.commit(stand(keys.values()))
        if kept:
            await self._deferred.add(kept)
            self._counters.acks_deferred += len(kept)
        if not known:
            raise unreachable()
        stale = [delivery_id for delivery_id in results if delivery_id not in kept]
        if stale:
            detail = f"{len(stale)} of these hand-overs have ended; their messages were handed over again."
            raise Problem("stale-lease", detail, field="/delivery_ids", stale=stale, acked=[], deferred=list(kept))
        return {"acked": [], "deferred": list(kept)}

    async def tell_again(self, results: Mapping[str, bytes | None]) -> None:
        """Acknowledge what was processed in an earlier hand-over; if this is lost, it comes again."""
        await self._tell(ack_body(results))

    async def release(self, delivery_ids: Sequence[str]) -> None:
        """Give hand-overs back, free of charge, one by one; if this is lost, their leases lapse."""
        for delivery_id in delivery_ids:
            self._handed.drop(delivery_id)
            body = {"delivery_id": delivery_id, "mode": "release", "reason": "the agent had gone"}
            await self._link.call("POST", NACK_PATH, encode(body))

    async def nack(self, body: dict[str, Any]) -> dict[str, Any]:
        """Pass a nack on; `adapter-unreachable` when it cannot be: the lease will lapse by itself."""
        return (await self._link.call("POST", NACK_PATH, encode(body))).expect()

    async def extend(self, body: dict[str, Any]) -> dict[str, Any]:
        """Pass an extension on."""
        return (await self._link.call("POST", EXTEND_PATH, encode(body))).expect()

    async def _tell(self, body: dict[str, Any]) -> LinkAnswer:
        return await self._link.call("POST", ACK_PATH, encode(body))

    async def _remember(self, processed: Sequence[Processed]) -> None:
        """Commit messages as processed."""
        if not processed:
            return
        saving = self._store.commit(remember(processed, self._clock.wall_us()))
        save_seen = self._seen.take_unsaved()
        if save_seen is not None:  # submitted in the same turn, so both share one transaction
            self._store.commit(save_seen).add_done_callback(asyncio.Future.exception)
        await saving
