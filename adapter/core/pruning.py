"""Pruning: what is too old goes, in batches so small that no send notices. Part of the exchange.

A pass begins every `check_us`. It takes one batch at a time, each in the transaction of the group that is being
decided, with pauses between. When every lane and the list of what was held has been gone through, and much of the file
is free, that is given back in steps as small; then the pass is over.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.books import Books, Decide
from adapter.core.clock_trust import ClockTrust, Line
from adapter.core.commands import Snapshot
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.retention import BATCH_ROWS, Batch, Lane, scan, sweep
from shared.free_space import pages_to_give_back
from shared.names import ADAPTER
from shared.times import MICROSECONDS

PAUSE_US: Final = 20_000
"""Between two batches, of which one costs a millisecond at most: a twentieth of the writer's time, and still two
hundred times as fast as a deployment of 1,000,000 messages a day fills its store."""

FIRST_CHECK_US: Final = 60 * MICROSECONDS
"""After a start there is more urgent work."""

GIVE_BACK_PAGES: Final = 32
"""Of one step, a quarter of a megabyte: each page may have to be moved."""

_LOOKS_MAX: Final = 16
"""Lanes looked at in one batch, where nothing is due in them."""

_NONE: Final[Mapping[type, Decide]] = {}
_HELD: Final = Lane("", contract=False)
"""The list of what was held, among the lanes of a pass."""


@dataclass(slots=True)
class PruningFigures:
    """What was done since the exchange was made. `last_pass_us` is wall time, 0 before the first has ended."""

    messages: int = 0
    last_pass_us: int = 0
    clock_doubted: bool = False


class Pruning:
    """Forgets messages with all that belongs to them; sequences stay."""

    def __init__(self, books: Books, snapshot: Snapshot, now: Now) -> None:
        self._books = books
        self._policy = books.policy.retention
        self._floors = dict(snapshot.floors)
        self._forgotten_us = snapshot.forgotten_us
        self._trust = ClockTrust(Line(snapshot.trusted_us or now.wall_us, now.steady_us))
        self._looked = False
        self._lanes: deque[Lane] = deque()
        self._swept = 0
        self._spare_pages = 0
        self._due_us = now.steady_us + min(self._policy.check_us, FIRST_CHECK_US)
        self.figures = PruningFigures()

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return _NONE

    def next_due_us(self) -> int | None:
        """See `Part`: the next batch, or the next pass."""
        return self._due_us if self._policy.check_us else None

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        if not self._policy.check_us or now.steady_us < self._due_us:
            return
        if self._spare_pages:
            self._give_back(store)
        else:
            self._prune(store, now)
        if self._lanes or self._spare_pages:
            self._due_us = now.steady_us + PAUSE_US
        else:
            self._due_us = now.steady_us + self._policy.check_us
            self.figures.last_pass_us = now.wall_us

    def _prune(self, store: StoreTransaction, now: Now) -> None:
        if not self._lanes:
            self._begin(store, now)
        time_us = self._trust.time_us(now)
        for _ in range(_LOOKS_MAX):
            if self._take(self._lanes[0], store, time_us) or not self._lanes:
                break
        if not self._lanes:
            self._spare_pages = pages_to_give_back(*store.space())

    def _give_back(self, store: StoreTransaction) -> None:
        pages = min(self._spare_pages, GIVE_BACK_PAGES)
        store.give_back(pages)
        self._spare_pages -= pages

    def _begin(self, store: StoreTransaction, now: Now) -> None:
        self._look_at_clocks(now)
        store.save_retention_clock(self._trust.time_us(now), self._forgotten_us)
        self._lanes.extend(self._policy.lanes(self._books.places.channels()))
        self._lanes.append(_HELD)
        self._swept = 0

    def _look_at_clocks(self, now: Now) -> None:
        before, self._trust = self._trust, self._trust.observe(now, self._policy.agree_us)
        jump = before.jump(self._trust, at_start=not self._looked)
        if jump is not None:
            self._books.changes.alarms.append(Alarm(AlarmKind.CLOCK, ADAPTER, jump))
        self._looked = True
        self.figures.clock_doubted = self._trust.claimed is not None

    def _take(self, lane: Lane, store: StoreTransaction, time_us: int) -> bool:
        """One batch of a lane, which leaves the pass when nothing more is due in it. Whether anything was done."""
        batch = self._sweep(store, time_us) if lane is _HELD else self._scan(lane, store, time_us)
        if batch.prune:
            store.prune(batch.prune)
            self._forgotten_us = max(self._forgotten_us, batch.newest_us + 1)
            store.save_retention_clock(time_us, self._forgotten_us)
            self.figures.messages += len(batch.prune)
        if not batch.more:
            self._lanes.popleft()
        return bool(batch.prune or batch.hold or batch.more)

    def _scan(self, lane: Lane, store: StoreTransaction, time_us: int) -> Batch:
        floor = self._floors.get(lane, 0)
        cutoff_us = self._policy.cutoff_us(lane, time_us)
        if cutoff_us is None:  # a lane that has none is not in a pass
            return Batch(floor, more=False)
        batch = scan(lane, cutoff_us, floor, store.retained(lane.channel, floor, BATCH_ROWS))
        if batch.hold:
            store.hold(batch.hold)
        if batch.position > floor:
            self._floors[lane] = batch.position
            store.save_floor(lane, batch.position)
        return batch

    def _sweep(self, store: StoreTransaction, time_us: int) -> Batch:
        batch = sweep(self._policy, time_us, self._swept, store.held(self._swept, BATCH_ROWS))
        self._swept = batch.position
        return batch
