"""One recipient's live deliveries: who is next, and what a failure takes with it.

Deliveries of one order key form a line, in commit order. A delivery may be handed out only when it heads its line or
stands behind others of the same hand-over (promise 3). Lines are linked lists, so every act costs the same however
long the queue is; the heaps are lazy: what they name is checked when it comes up.

What waits behind the first hundreds is packed (`backlog.py`). It is newer than all that are objects, and comes up, from
the front, where it may be handed out or where something happens to it.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final

from adapter.core.backlog import CHUNK, Backlog
from adapter.core.delivery import Delivery, Event, State, Waiting

OBJECTS_MIN: Final = 2 * CHUNK
"""So many deliveries are objects before one is packed: a hand-over, and the next while that is out."""

_SLACK: Final = 64
"""How many outdated entries a heap may hold beyond twice its live ones before it is made anew."""


class Mailbox:
    """The queue of one recipient. Methods give back what they changed, for the store.

    `live` are those that are objects, by message.
    """

    def __init__(self, recipient: str) -> None:
        self.recipient = recipient
        self.live: dict[int, Delivery] = {}
        self._backlog = Backlog(recipient)
        self._in_order = True
        self._tails: dict[int, Delivery] = {}
        self._ready: list[int] = []
        self._later: list[tuple[int, int]] = []
        self._leases: list[tuple[int, int]] = []
        self._expiries: list[tuple[int, int]] = []
        self._batch = 0

    @property
    def depth(self) -> int:
        """How many are alive."""
        return len(self.live) + len(self._backlog)

    @property
    def waits(self) -> bool:
        """Whether one is queued."""
        return bool(self._backlog) or any(delivery.state is State.QUEUED for delivery in self.live.values())

    def add(self, delivery: Delivery) -> None:
        """Put a new or reloaded delivery at the end of its line. One that is packed comes up as another object."""
        waiting = delivery.waiting
        if waiting is not None and self._is_far:
            self._pack(waiting)
            return
        self._bring_up_to(delivery.message_id)
        self._join(delivery)

    def wait(self, waiting: Waiting) -> None:
        """Put one at the end of its line that has a row, and nothing else."""
        if self._is_far:
            self._pack(waiting)
        else:
            self._join(Delivery(*waiting, stored=True))

    def find(self, message_id: int) -> Delivery | None:
        """The live delivery of a message, to do something with it."""
        self._bring_up_to(message_id)
        return self.live.get(message_id)

    @property
    def _is_far(self) -> bool:
        return len(self.live) >= OBJECTS_MIN or bool(self._backlog)

    def _pack(self, waiting: Waiting) -> None:
        self._backlog.append(waiting)
        if waiting.expires_at_us is not None:
            self._watch_expiry(waiting.expires_at_us, waiting.message_id)

    def _bring_up(self) -> list[Delivery]:
        """Make objects of the first few of the backlog."""
        brought = [Delivery(*waiting, stored=True) for waiting in self._backlog.pop()]
        for delivery in brought:
            self._join(delivery)
        return brought

    def _bring_up_to(self, message_id: int) -> None:
        while self._backlog and self._backlog.oldest() <= message_id:
            self._bring_up()

    def _join(self, delivery: Delivery) -> None:
        tail = self._tails.get(delivery.order_key)
        if tail is not None:
            tail.after, delivery.before = delivery, tail
        self._tails[delivery.order_key] = delivery
        self.live[delivery.message_id] = delivery
        self._enter(delivery)

    def revive(self, delivery: Delivery) -> None:
        """Put a dead delivery back in its place, which is that of its message, with nothing spent."""
        delivery.move(Event.REPLAY)
        delivery.failures = delivery.lease_until_us = delivery.not_before_us = delivery.batch = 0
        delivery.solo = False
        delivery.detail = None
        self._bring_up_to(delivery.message_id)
        before, after = self._tails.get(delivery.order_key), None
        while before is not None and before.message_id > delivery.message_id:
            before, after = before.before, before
        delivery.before, delivery.after = before, after
        if before is not None:
            before.after = delivery
        if after is not None:
            after.before = delivery
        else:
            self._tails[delivery.order_key] = delivery
        self.live[delivery.message_id] = delivery
        self._in_order = False
        self._enter(delivery)

    def _enter(self, delivery: Delivery) -> None:
        if delivery.state is State.LEASED:
            self._watch(delivery)
        else:
            self._offer(delivery)

    def claim(
        self, count: int, now_us: int, lease_until_us: int, mint: Callable[[Delivery], str]
    ) -> tuple[list[Delivery], list[Delivery]]:
        """Lease up to `count` deliveries, in commit order: those handed out, and those found expired."""
        self._batch += 1
        handed: list[Delivery] = []
        expired: list[Delivery] = []
        self.wake(now_us)
        while len(handed) < count:
            if not self._ready:
                if not self._goes_on(handed):
                    break
                self._bring_up()
                continue
            delivery = self.live.get(self._ready[0])
            if delivery is None or not self._may_leave(delivery, now_us):
                heappop(self._ready)
                continue
            if delivery.expires_at_us is not None and delivery.expires_at_us <= now_us:
                self._end(delivery, Event.EXPIRE)
                expired.append(delivery)
                continue
            if delivery.solo and handed:
                break
            heappop(self._ready)
            self._lease(delivery, lease_until_us, mint)
            handed.append(delivery)
            if delivery.solo:
                break
        return handed, expired

    def ack(self, delivery: Delivery) -> None:
        """It is processed."""
        self._end(delivery, Event.ACK)

    def take(self, delivery: Delivery) -> None:
        """Its recipient takes it out of turn, and has processed it."""
        if delivery.state is State.QUEUED:
            delivery.move(Event.LEASE)
            delivery.handovers += 1
        self._end(delivery, Event.ACK)

    def refuse(self, delivery: Delivery) -> None:
        """Its recipient will never take it."""
        self._end(delivery, Event.REFUSE)

    def evict(self, delivery: Delivery) -> None:
        """It makes room."""
        self._end(delivery, Event.EVICT)

    def close(self) -> list[Delivery]:
        """Its recipient is no agent any more: what waits and what is out is dead, in commit order."""
        while self._backlog:
            self._bring_up()
        ended = list(self.live.values())
        for delivery in ended:
            self._end(delivery, Event.REMOVE)
        return ended

    def release(self, delivery: Delivery) -> list[Delivery]:
        """It comes back free of charge, and with it the later ones of its line that were handed out together with it.

        Others of its line can be out only when it was replayed: they went before it came back, and are left alone.
        """
        return self._give_back(delivery, Event.RELEASE)

    def fail(self, delivery: Delivery, retry_at_us: int | None, *, silent: bool) -> list[Delivery]:
        """It failed: back to the queue at `retry_at_us`, or dead where that is none.

        `silent` means that its lease lapsed without a word, so its receiver may have crashed over it: next time it is
        handed out alone.
        """
        delivery.failures += 1
        delivery.solo = silent
        if retry_at_us is None:
            followers = self._release_followers(delivery)
            self._end(delivery, Event.EXHAUST)
            return [delivery, *followers]
        delivery.not_before_us = retry_at_us
        return self._give_back(delivery, Event.FAIL)

    def extend(self, delivery: Delivery, lease_until_us: int) -> None:
        """Its lease ends later, or sooner."""
        delivery.lease_until_us = lease_until_us
        self._watch(delivery)

    def lapsed(self, now_us: int) -> Iterator[Delivery]:
        """Deliveries whose lease has ended, in commit order. The caller fails each before it takes the next."""
        due: list[int] = []
        while self._leases and self._leases[0][0] <= now_us:
            heappush(due, heappop(self._leases)[1])
        while due:
            delivery = self.live.get(heappop(due))
            if delivery is not None and delivery.state is State.LEASED and delivery.lease_until_us <= now_us:
                yield delivery

    def wake(self, now_us: int) -> None:
        """What waited for its time until now may be handed out."""
        while self._later and self._later[0][0] <= now_us:
            heappush(self._ready, heappop(self._later)[1])

    def expire(self, now_us: int) -> list[Delivery]:
        """Those that wait and whose time has run out: dead now. One in its receiver's hands is left there."""
        expired = []
        while self._expiries and self._expiries[0][0] <= now_us:
            delivery = self.find(heappop(self._expiries)[1])
            if delivery is not None and delivery.state is State.QUEUED:
                self._end(delivery, Event.EXPIRE)
                expired.append(delivery)
        return expired

    def next_due_us(self) -> int | None:
        """When a lease may lapse, or a waiting delivery becomes ready or expires, at the earliest."""
        heads = [heap[0][0] for heap in (self._leases, self._later, self._expiries) if heap]
        return min(heads) if heads else None

    def oldest_evictable(self) -> Delivery | None:
        """The oldest queued delivery of normal priority; a leased one is in its receiver's hands and stays."""
        if not self._in_order:  # something was revived since: a job revives hundreds, and nobody asks in between
            self.live = dict(sorted(self.live.items()))
            self._in_order = True
        oldest = next((d for d in self.live.values() if d.state is State.QUEUED and not d.critical), None)
        while oldest is None and self._backlog:
            oldest = next((d for d in self._bring_up() if not d.critical), None)
        return oldest

    def _goes_on(self, handed: list[Delivery]) -> bool:
        """Whether what is packed may leave with those handed out: where nothing of its line is an object, or one of
        them is in front of it. At most as many lines are looked at as have objects, and one."""
        lines = self._backlog.lines
        return any(key not in self._tails for key in lines) or any(each.order_key in lines for each in handed)

    def _may_leave(self, delivery: Delivery, now_us: int) -> bool:
        if delivery.state is not State.QUEUED or delivery.not_before_us > now_us:
            return False
        return delivery.before is None or delivery.before.batch == self._batch

    def _lease(self, delivery: Delivery, lease_until_us: int, mint: Callable[[Delivery], str]) -> None:
        delivery.move(Event.LEASE)
        delivery.handovers += 1
        delivery.token = mint(delivery)
        delivery.lease_until_us = lease_until_us
        delivery.batch = self._batch
        self._watch(delivery)
        if delivery.after is not None:
            heappush(self._ready, delivery.after.message_id)

    def _give_back(self, delivery: Delivery, event: Event) -> list[Delivery]:
        followers = self._release_followers(delivery)
        self._requeue(delivery, event)
        return [delivery, *followers]

    def _release_followers(self, delivery: Delivery) -> list[Delivery]:
        released = []
        follower = delivery.after
        while follower is not None:
            if follower.state is State.LEASED and follower.same_hand_over(delivery):
                self._requeue(follower, Event.RELEASE)
                released.append(follower)
            follower = follower.after
        return released

    def _requeue(self, delivery: Delivery, event: Event) -> None:
        delivery.move(event)
        delivery.lease_until_us = 0
        delivery.batch = 0
        self._offer(delivery)

    def _watch(self, delivery: Delivery) -> None:
        heappush(self._leases, (delivery.lease_until_us, delivery.message_id))
        if len(self._leases) > 2 * len(self.live) + _SLACK:  # settled or extended since, and due much later
            leased = (d for d in self.live.values() if d.state is State.LEASED)
            self._leases = sorted((d.lease_until_us, d.message_id) for d in leased)

    def _offer(self, delivery: Delivery) -> None:
        if delivery.not_before_us:
            heappush(self._later, (delivery.not_before_us, delivery.message_id))
        if delivery.expires_at_us is not None:
            self._watch_expiry(delivery.expires_at_us, delivery.message_id)
        heappush(self._ready, delivery.message_id)
        if len(self._ready) > 2 * len(self.live) + _SLACK:
            self._ready = sorted(self.live)  # sheds what was settled while its recipient did not poll

    def _watch_expiry(self, expires_at_us: int, message_id: int) -> None:
        heappush(self._expiries, (expires_at_us, message_id))
        if len(self._expiries) > 2 * self.depth + _SLACK:  # settled long before their time
            queued = [*(d for d in self.live.values() if d.state is State.QUEUED), *self._backlog]
            self._expiries = sorted((d.expires_at_us, d.message_id) for d in queued if d.expires_at_us is not None)

    def _end(self, delivery: Delivery, event: Event) -> None:
        delivery.move(event)
        before, after = delivery.before, delivery.after
        if before is not None:
            before.after = after
        if after is not None:
            after.before = before
            heappush(self._ready, after.message_id)
        elif before is not None:
            self._tails[delivery.order_key] = before
        else:
            del self._tails[delivery.order_key]
        delivery.before = delivery.after = None
        del self.live[delivery.message_id]
