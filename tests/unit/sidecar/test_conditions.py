"""When a condition begins, is told again, and is over."""

from dataclasses import replace
from typing import Any

import pytest

from sidecar.core import conditions
from sidecar.core.conditions import (
    CALM_US,
    CONDITIONS,
    REPEAT_US_FIRST,
    REPEAT_US_MAX,
    Active,
    Facts,
    due_us,
    repeat_us,
    step,
)
from sidecar.core.outbox_bounds import OutboxBounds
from tests.support.clock import us

BOUNDS = OutboxBounds(entries_max=1_100, critical_reserve=100, age_us_max=us(1_000), dead_max=100)
START_US = us(1_000_000)
WELL = Facts(
    now_us=START_US, reachable=True, closed=True, well=True, away_us=0, quiet_at_us=None, away_us_max=us(60), depth=0,
    dead=0, oldest_age_us=None, bounds=BOUNDS, stuck_bytes_max=1_000, believed=True,
)  # fmt: skip
AWAY = replace(WELL, reachable=False, closed=False, well=False)


def facts(base: Facts = WELL, seconds: float = 0, **changed: Any) -> Facts:
    """Facts so many seconds after the start."""
    return replace(base, now_us=START_US + us(seconds), **changed)


def names(active: dict[str, Active]) -> set[str]:
    """What lasts."""
    return set(active)


def told(step_: conditions.Step) -> list[tuple[str, str]]:
    """What is to be told, and as what."""
    return [(notice.condition.name, notice.stage) for notice in step_.notices]


SECOND = us(1)
EDGES = [
    # name, not yet, entered, lasts still, over
    ("breaker-open-too-long", {"away_us": us(59)}, {"away_us": us(60), "well": False},
     {"away_us": 0, "well": False}, {"away_us": 0, "well": True}),
    ("outbox-nearly-full", {"depth": 899}, {"depth": 900}, {"depth": 750}, {"depth": 749}),
    ("outbox-full", {"depth": 999}, {"depth": 1_000}, {"depth": 900}, {"depth": 899}),
    ("outbox-aging", {"oldest_age_us": us(499)}, {"oldest_age_us": us(500)}, {"oldest_age_us": us(450)},
     {"oldest_age_us": us(449)}),
    ("outbox-too-old", {"oldest_age_us": us(799)}, {"oldest_age_us": us(800)}, {"oldest_age_us": us(750)},
     {"oldest_age_us": None}),
    ("outbox-refused", {"dead": 0}, {"dead": 1}, {"dead": 7}, {"dead": 0}),
    ("outbox-stopped", {"dead": 99}, {"dead": 100}, {"dead": 91}, {"dead": 90}),
    ("bad-signature", {"bad_answer_us": None}, {"bad_answer_us": START_US, "believed": False},
     {"bad_answer_us": START_US - CALM_US + 1, "believed": True}, {"bad_answer_us": START_US - CALM_US}),
    ("disk-trouble", {"store_fault": None}, {"store_fault": "full", "store_failed_us": START_US},
     {"store_failed_us": START_US - CALM_US + 1}, {"store_failed_us": START_US - CALM_US}),
    ("store-log-stuck", {"stuck_bytes": 999}, {"stuck_bytes": 1_000}, {"stuck_bytes": 500}, {"stuck_bytes": 499}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "not_yet", "entered", "lasts", "over"), EDGES, ids=[edge[0] for edge in EDGES])
def test_each_begins_and_ends_at_its_edges(
    name: str, not_yet: dict[str, Any], entered: dict[str, Any], lasts: dict[str, Any], over: dict[str, Any]
) -> None:
    """Just under the edge nothing begins; what has begun lasts until it is clearly over."""
    assert name not in names(step({}, facts(**not_yet)).active)
    begun = step({}, facts(**entered))
    assert (name, "entered") in told(begun)
    mine = {name: begun.active[name]}
    assert name in names(step(mine, facts(**lasts)).active)
    ended = step(mine, facts(**over))
    assert name not in names(ended.active)
    assert (name, "cleared") in told(ended)
    assert (name, "entered") not in told(step({}, facts(**over)))


def test_every_condition_has_its_edges_here() -> None:
    """None is added without a test; each has words for every state, and an event of its own."""
    assert {condition.name for condition in CONDITIONS} == {edge[0] for edge in EDGES}
    for condition in CONDITIONS:
        assert condition.words(facts())
        assert condition.under is None or condition.under in {other.name for other in CONDITIONS}


def test_it_is_told_again_less_and_less_often() -> None:
    """After five minutes, then after twice as long each time, at last every hour; and never in between."""
    minutes = [round(repeat_us(times) / us(60)) for times in range(1, 8)]
    assert minutes == [5, 10, 20, 40, 60, 60, 60]
    assert repeat_us(10_000) == REPEAT_US_MAX
    active = step({}, facts(dead=1)).active
    heard = []
    for second in range(0, 3 * 3_600, 10):
        taken = step(active, facts(seconds=second, dead=1))
        active = taken.active
        heard += [second for _ in taken.notices]
    assert heard == [300, 900, 2_100, 4_500, 8_100]


def test_what_is_back_and_forth_is_told_once() -> None:
    """A depth that swings between the two edges is one condition."""
    active: dict[str, Active] = {}
    stages = []
    for depth in (899, 900, 890, 901, 760, 905, 740):
        taken = step(active, facts(depth=depth))
        active = taken.active
        stages += told(taken)
    assert stages == [("outbox-nearly-full", "entered"), ("outbox-nearly-full", "cleared")]


def test_a_graver_one_speaks_for_both() -> None:
    """While the outbox is full, that it is nearly full is not told again; it is when only that is left."""
    active = step({}, facts(depth=1_000)).active
    assert names(active) == {"outbox-nearly-full", "outbox-full"}
    later = step(active, facts(seconds=300, depth=1_000))
    assert told(later) == [("outbox-full", "repeated")]
    calmer = step(later.active, facts(seconds=301, depth=850))
    assert told(calmer) == [("outbox-full", "cleared"), ("outbox-nearly-full", "repeated")]


def test_a_cleared_one_tells_since_when() -> None:
    """So that the entry can say for how long."""
    active = step({}, facts(depth=1_000)).active
    cleared, _ = step(active, facts(seconds=90, depth=0)).notices
    assert (cleared.stage, cleared.active.since_us) == ("cleared", START_US)


def test_after_a_restart_nothing_is_told_twice() -> None:
    """What was loaded lasts though the breaker is closed at first and no answer has come: only success ends it."""
    loaded = {
        name: Active(START_US - us(100), START_US - us(100), 1) for name in ("breaker-open-too-long", "bad-signature")
    }
    fresh = facts(AWAY, believed=False)
    assert told(step(loaded, fresh)) == []
    assert names(step(loaded, fresh).active) == set(loaded)
    assert sorted(told(step(loaded, facts()))) == [("bad-signature", "cleared"), ("breaker-open-too-long", "cleared")]


def test_an_outage_that_may_end_by_silence_is_looked_at_then() -> None:
    """While requests may go out, time alone makes an outage no longer, but may end it."""
    doubted = facts(away_us=us(20), well=False, quiet_at_us=START_US + us(30))
    assert due_us({}, doubted) == START_US + us(30)
    assert due_us({}, replace(doubted, closed=False)) == START_US + us(40)


@pytest.mark.parametrize(
    ("changed", "due_seconds"),
    [
        ({}, None),
        ({"away_us": us(20), "well": False, "closed": False}, 40),
        ({"away_us": us(20), "well": False}, None),
        ({"oldest_age_us": us(100)}, 400),
        ({"oldest_age_us": us(600)}, 200),
        ({"bad_answer_us": START_US - us(20)}, 40),
        ({"bad_answer_us": START_US, "believed": False}, None),
        ({"store_failed_us": START_US - us(50)}, 10),
        ({"stuck_bytes": 1_000}, 60),
    ],
)
def test_it_knows_when_time_alone_will_change_something(changed: dict[str, Any], due_seconds: float | None) -> None:
    """So that nobody has to look in between; when all is well, never."""
    due = due_us({}, facts(**changed))
    assert due == (None if due_seconds is None else pytest.approx(START_US + us(due_seconds), abs=1))
    if due is not None and not changed.get("store_failed_us") and not changed.get("bad_answer_us"):
        grown = {k: v + due - START_US for k, v in changed.items() if k in ("away_us", "oldest_age_us")}
        assert step({}, replace(facts(**(changed | grown)), now_us=due)).notices


def test_the_next_word_is_due_when_it_is_told() -> None:
    """Looking exactly then tells it, and looking before tells nothing."""
    active = step({}, facts(dead=1)).active
    due = due_us(active, facts(dead=1))
    assert due == START_US + REPEAT_US_FIRST
    assert told(step(active, facts(seconds=299.9, dead=1))) == []
    assert told(step(active, facts(seconds=300, dead=1))) == [("outbox-refused", "repeated")]
