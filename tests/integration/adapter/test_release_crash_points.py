"""Killed before any statement of a release, a scheduled message is afterwards scheduled or sent, and in the end once.

The same sweep as for deaths and replays, over accepting, cancelling and releasing.
"""

import contextlib

import pytest

from adapter.core.commands import CancelScheduled, Tick
from adapter.store import engine
from shared.database import QUIET_STORE
from shared.problems import Problem
from tests.integration.adapter.test_crash_points import Bench
from tests.support.factories import scheduled
from tests.support.mortal import copy_store, make_mortal
from tests.support.store_hand import looking_at

DUE_SECONDS = 60
COMMAND = scheduled(to="product", at=DUE_SECONDS)


def shown(path):
    """What the disk has of it: its standing in the timetable, messages, deliveries, and the channel's last sequence."""
    with looking_at(path) as db:
        standings = [standing for (standing,) in db.execute("SELECT standing FROM scheduled")]
        (messages,) = db.execute("SELECT count(*) FROM messages").fetchone()
        (deliveries,) = db.execute("SELECT count(*) FROM deliveries").fetchone()
        (last,) = db.execute("SELECT last_sequence FROM channels WHERE name = 'product'").fetchone()
    return standings, messages, deliveries, last


NOTHING, WAITING, CANCELLED, SENT = ([], 0, 0, 0), (["scheduled"], 0, 0, 0), (["cancelled"], 0, 0, 0), ([], 1, 6, 1)


@pytest.mark.parametrize(
    ("before", "act", "seconds", "first", "final"),
    [
        ((), COMMAND, 0, NOTHING, WAITING),
        ((COMMAND,), Tick(), DUE_SECONDS, WAITING, SENT),
        ((COMMAND,), CancelScheduled("pm", COMMAND.idempotency_key), 0, WAITING, CANCELLED),
    ],
    ids=["accept", "release", "cancel"],
)
async def test_a_kill_at_any_statement_leaves_one_of_two_states(
    tmp_path, monkeypatch, before, act, seconds, first, final
):
    """What was before, or what is after; and the act made again ends the same."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)  # a small log, which is copied often here
    bench, left, kept = Bench(tmp_path / "store.db"), tmp_path / "left.db", tmp_path / "kept.db"
    begun = bench.clock.steady_seconds
    async with bench.opened():
        await bench.do(*before)
    copy_store(bench.path, kept)
    found, statements, fatal = [], 1, -1
    while fatal < statements:
        fatal += 1
        copy_store(kept, bench.path)
        bench.at(begun)
        async with bench.opened():
            bench.at(begun + seconds)
            mortal = make_mortal(bench.store, bench.path, left, fatal)
            with contextlib.suppress(Problem):
                await bench.do(act)
            statements = len(mortal.statements) + mortal.is_dead
            if not mortal.is_dead:
                copy_store(bench.path, left)
        async with bench.opened(left):
            found.append(shown(left))
            await bench.do(act)
            assert shown(left) == final
    assert statements > 3
    committed = found.index(final)
    assert len(found) - committed <= 2  # the commit, and the question after it that the log's mark asks
    assert found == [first] * committed + [final] * (len(found) - committed)
