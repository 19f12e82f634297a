"""Killed before any statement of a death, a replay or a resend, a delivery is afterwards in exactly one of its states.

For each act the sweep kills the writer before its first statement, its second, and so on to the last, on real SQLite
(wolverine#4488: a dead letter that was copied and not settled lived twice). What the disk holds is then opened by a
fresh store, as after kill -9.
"""

import contextlib
from dataclasses import dataclass

import orjson
import pytest

from adapter.core.commands import Nack, Replay, Resolve, StartReplay, Tick
from adapter.core.dead_letters import Filter
from adapter.store import engine
from adapter.store.engine import Store
from shared.database import QUIET_STORE
from shared.problems import Problem
from tests.support.clock import SettableClock, us
from tests.support.factories import START_US, claim, membership, policy, send
from tests.support.mortal import copy_store, make_mortal
from tests.support.store_hand import as_sent, reading

QUEUE_MAX = 2
WINDOW_SECONDS = 10
LIVE = (0, 1)
DEAD = 3


class Bench:
    """One store that is opened again and again, and the time that goes on."""

    def __init__(self, path):
        self.path = path
        self.clock = SettableClock()
        self.store = None

    @contextlib.asynccontextmanager
    async def opened(self, path=None):
        """The store, open for a block."""
        rules = policy(queue_max=QUEUE_MAX, critical_reserve=4, attempts_max=1, alert_window_seconds=WINDOW_SECONDS)
        self.store = Store(path or self.path, membership(), rules, self.clock)
        await self.store.open()
        try:
            yield self
        finally:
            await self.store.close()

    def at(self, seconds):
        """It is so late now."""
        self.clock.wall_seconds = self.clock.steady_seconds = seconds

    async def do(self, *commands):
        """Outcomes of one group."""
        return (await self.store.apply(list(commands))).outcomes

    async def hold(self):
        """The token of the next message of qa."""
        ((handed,),) = await self.do(claim("qa", 1))
        return handed.delivery_id


async def nothing(bench):
    """Message 1 waits."""
    await bench.do(send(to="@qa", expires_at_us=START_US + us(50)))


async def a_death(bench):
    """Message 1 is dead, and an alert about it is due."""
    await nothing(bench)
    await bench.do(Nack("qa", await bench.hold(), "refuse", "no"))


async def an_alerted_death(bench):
    """As before, and the alert has been told."""
    await a_death(bench)
    bench.clock.advance(WINDOW_SECONDS)
    await bench.do(Tick())


async def a_second_life(bench):
    """Message 1 died, was told of, and was replayed."""
    await an_alerted_death(bench)
    await bench.do(Replay(1, "qa"))


async def a_full_queue(bench):
    """Message 1 is the oldest of as many as a queue takes."""
    await nothing(bench)
    await bench.do(*(send(to="@qa") for _ in range(QUEUE_MAX - 1)))


async def refuse(bench):
    """Its receiver will never take it."""
    return Nack("qa", await bench.hold(), "refuse", "no")


async def exhaust(bench):
    """Its last attempt fails."""
    return Nack("qa", await bench.hold(), "fail", "no")


async def lapse(bench):
    """Its receiver falls silent at its last attempt."""
    await bench.hold()
    bench.clock.advance(31)
    return Tick()


async def expire(bench):
    """Its time runs out."""
    bench.clock.advance(50)
    return Tick()


async def evict(_):
    """It makes room for another."""
    return send(to="@qa")


async def replay(_):
    """Somebody wants it tried again."""
    return Replay(1, "qa")


async def resolve(_):
    """Somebody has dealt with it."""
    return Resolve(1, "qa", "by hand")


async def a_job_over_it(bench):
    """As before, and a job is to try it again."""
    await a_death(bench)
    bench.clock.advance(1)
    await bench.do(StartReplay("job", Filter(), None, None))


async def resend(_):
    """Another message takes its place."""
    replaces = {"recipient": "qa", "channel": "@qa", "channel_sequence_id": 1}
    return send("orchestrator", "@qa", replaces=replaces)


async def go_on(_):
    """The job's next turn."""
    return Tick()


async def alert(_):
    """What died is told of."""
    return Tick()


ACTS = [
    (nothing, refuse), (nothing, exhaust), (nothing, lapse), (nothing, expire), (a_full_queue, evict),
    (a_death, replay), (a_death, resolve), (a_death, alert), (an_alerted_death, replay),
    (a_second_life, refuse), (a_second_life, exhaust), (a_death, resend), (a_job_over_it, go_on),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """What the disk holds of message 1, and of all alerts: counted and not told, and told."""

    state: int
    reason: str | None
    closure: str | None
    deaths: int
    untold: int
    told: int


def shown(path):
    """Read by another hand than the store's own."""
    with reading(path) as db:
        ((state, reason),) = db.execute("SELECT state, reason FROM deliveries WHERE message_id = 1")
        letters = db.execute("SELECT closure, cycles FROM dead_letters WHERE message_id = 1").fetchall()
        assert len(letters) <= 1
        (untold,) = db.execute("SELECT coalesce(sum(untold), 0) FROM tallies").fetchone()
        envelopes = [orjson.loads(as_sent(body)) for (body,) in db.execute("SELECT envelope FROM messages")]
        (deaths,) = db.execute("SELECT coalesce(sum(cycles), 0) FROM dead_letters").fetchone()
        resent = [envelope for envelope in envelopes if "replaces" in envelope]
        assert [letter for letter, _ in letters].count("resent") == len(resent)
        jobs = db.execute("SELECT replayed FROM replays").fetchall()
        assert all(count == (letters[0][0] == "replayed") for (count,) in jobs)
        told = sum(envelope["payload"]["count"] for envelope in envelopes if envelope["sender"] == "adapter")
    closure = letters[0][0] if letters else "never died"
    return Shown(state, reason, closure, deaths, untold, told)


def check(one):
    """Exactly one of alive and in an open or resolved record; and each death is told of, or will be, once."""
    if one.state in LIVE:
        assert one.closure in {"never died", "replayed"}
        assert one.reason is None
    else:
        assert one.state == DEAD
        assert one.closure in {None, "resolved", "resent"}
        assert one.reason is not None
    assert one.deaths == one.untold + one.told


@pytest.mark.parametrize(("before", "act"), ACTS, ids=lambda step: step.__name__.replace("_", "-"))
async def test_a_kill_at_any_statement_leaves_one_of_two_states(tmp_path, monkeypatch, before, act):
    """What was before the act, or what is after it; and whoever comes next brings it to the same end."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)  # a small log, which is copied often here
    bench, left = Bench(tmp_path / "store.db"), tmp_path / "left.db"
    async with bench.opened():
        await before(bench)
        command = await act(bench)
    kept = tmp_path / "kept.db"
    copy_store(bench.path, kept)
    first, found, ends, statements = shown(kept), [], set(), 0
    fatal, begun = -1, bench.clock.steady_seconds
    while fatal < statements:
        fatal += 1
        copy_store(kept, bench.path)
        bench.at(begun)
        async with bench.opened():
            bench.at(begun + WINDOW_SECONDS)
            mortal = make_mortal(bench.store, bench.path, left, fatal)
            with contextlib.suppress(Problem):
                await bench.do(command)
            statements = len(mortal.statements) + mortal.is_dead
            if not mortal.is_dead:
                copy_store(bench.path, left)
        async with bench.opened(left):
            found.append(shown(left))
            check(found[-1])
            bench.at(begun + 2 * WINDOW_SECONDS)
            await bench.do(command)
            check(shown(left))
            ends.add((shown(left).state, shown(left).closure))
    final = found[-1]
    assert final != first
    assert statements > 3
    assert found == [first] * (len(found) - 2) + [final] * 2  # killed between commit and log mark; not killed
    assert ends == {(final.state, final.closure)}
