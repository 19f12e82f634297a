"""The bound of an outbox among sends, drains, drops and resends that all come at once, on real SQLite.

Whatever the order: never more wait than may, the last places go to critical sends only, each send that has its 202 is
in the outbox, with the adapter, among the refused or dropped by hand, in exactly one of them; and a new process counts
the same.
"""

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from shared.clock import Clock
from shared.problems import Problem
from shared.strict_json import encode
from sidecar.core.drafts import Draft
from sidecar.core.outbox_bounds import OutboxBounds
from sidecar.store.outbox import Outbox
from sidecar.store.outbox_units import Levels
from sidecar.store.store import Store, open_store

BOUNDS = OutboxBounds(entries_max=12, critical_reserve=4, age_us_max=10**15, dead_max=5)
ACTS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("drain"), st.integers(1, 6), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.integers(0, 40), st.booleans()),
    st.tuples(st.just("resend"), st.integers(0, 40), st.booleans()),
)


def _is_critical(kind: str) -> bool:
    return kind == "task.cancel/1"


class World:
    """An outbox, and what its answers have promised."""

    def __init__(self, store: Store) -> None:
        self.outbox = Outbox(store, Clock(), BOUNDS, _is_critical, self._look)
        self.promised: list[str] = []
        self.critical: dict[str, bool] = {}
        self.arrived: list[str] = []
        self.dropped: list[str] = []

    def _look(self) -> None:
        assert self.outbox.depth <= BOUNDS.entries_max
        assert self.outbox.dead <= BOUNDS.dead_max

    async def together(self, acts: list[tuple]) -> None:
        """All of them, started in one turn of the loop; one drain at a time, as in a sidecar."""
        drains = [act for act in acts if act[0] == "drain"]
        others = [getattr(self, name)(*given) for name, *given in acts if name != "drain"]
        await asyncio.gather(*others, self._drains(drains))

    async def send(self, count: int, critical: bool) -> None:
        """New sends."""
        kind = "task.cancel/1" if critical else "note/1"
        drafts = []
        for _ in range(count):
            key = str(UUID(int=len(self.critical)))
            self.critical[key] = critical
            envelope = {"to": "product", "type": kind, "payload": None, "idempotency_key": key}
            drafts.append(Draft(key, envelope, encode(envelope)))
        for draft, outcome in zip(drafts, await asyncio.gather(*map(self.outbox.add, drafts)), strict=True):
            if outcome.code == 202:
                self.promised.append(draft.key)
                assert outcome.answer is not None
                assert outcome.answer["outbox_position"] <= (BOUNDS.entries_max if critical else BOUNDS.normal_max)
            else:
                assert outcome.problem is not None
                assert outcome.problem["type"] == "outbox-full"
                assert outcome.problem["outbox_depth"] >= (BOUNDS.entries_max if critical else BOUNDS.normal_max)

    async def drop(self, number: int, _: bool) -> None:
        """One of them by hand, wherever it is."""
        try:
            await self.outbox.drop(str(UUID(int=number)))
        except Problem as problem:
            if problem.kind not in {"not-found", "in-flight"}:
                raise
        else:
            self.dropped.append(str(UUID(int=number)))

    async def resend(self, number: int, _: bool) -> None:
        """One by hand, if it was refused."""
        await self.outbox.resend(str(UUID(int=number)), None)

    async def _drains(self, drains: list[tuple]) -> None:
        for _, count, refused in drains:
            async with self.outbox.taken(count) as entries:
                dead, done = entries[:refused], entries[refused:]
                await self.outbox.settle(done, [(entry, {"type": "expired"}) for entry in dead])
                self.arrived += [entry.draft.key for entry in done]


async def _play(path: Path, turns: list[list[tuple]]) -> None:
    async with open_store(path) as store:
        world = World(store)
        for acts in turns:
            await world.together(acts)
        waiting = await store.read(lambda c: [k for (k,) in c.execute("SELECT idempotency_key FROM outbox")])
        dead = await store.read(lambda c: [k for (k,) in c.execute("SELECT idempotency_key FROM outbox_dead")])
        assert sorted([*waiting, *dead, *world.arrived, *world.dropped]) == sorted(world.promised)
        outbox = world.outbox
        levels = Levels(outbox.depth, outbox.dead, outbox.oldest_us)
        again = Outbox(store, Clock(), BOUNDS, _is_critical)
        await again.load()
        assert Levels(again.depth, again.dead, again.oldest_us) == levels
        assert (levels.depth, levels.dead) == (len(waiting), len(dead))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(ACTS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_the_bound_is_exact_and_nothing_is_lost(turns: list[list[tuple]]) -> None:
    """In every order of what comes at once."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(Path(folder) / "sidecar.db", turns))
        assert turns


def test_many_at_once_get_just_the_places_there_are() -> None:
    """Five hundred sends in one turn: the normal ones stop at their bound, and critical ones fill it to the end."""

    async def crowd(path: Path) -> None:
        async with open_store(path) as store:
            world = World(store)
            await world.together([("send", 10, number % 2 == 0) for number in range(50)])
            kept = [world.critical[key] for key in world.promised]
            assert len(kept) == BOUNDS.entries_max
            assert kept.count(False) <= BOUNDS.normal_max
            assert world.outbox.depth == BOUNDS.entries_max

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(crowd(Path(folder) / "sidecar.db"))
