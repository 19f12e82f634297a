"""What reaches the Human Governor: patterns, refused critical sends, and too many dead letters."""

import json

import pytest

from adapter.contracts import load_registry
from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.commands import Resolve, Tick
from shared.config import RATES_DEFAULT
from shared.names import GOVERNOR
from tests.support.factories import policy, send


@pytest.fixture
def bench(make_bench):
    return make_bench(policy(alert_window_seconds=10, repeats=5, dead_letters_max=20))


def kill(bench, count=1):
    """Messages for qa that it refuses."""
    bench.group(*(send(to="@qa") for _ in range(count)))
    for handed in bench.poll(count=count):
        bench.nack(handed, "refuse")


def inbox(bench):
    """The envelopes of what waits for the Governor, which takes them."""
    handed = bench.poll(GOVERNOR, 100)
    bench.ack(*handed, recipient=GOVERNOR)
    return [json.loads(one.envelope) for one in handed]


def test_repeated_dead_letters_reach_the_governor(bench, tmp_path):
    """Once, on its own channel, with the number of them and since when, as its contract demands."""
    kill(bench, 4)
    bench.wait(10)
    assert inbox(bench) == []
    kill(bench, 3)
    bench.wait(10)
    (escalated,) = inbox(bench)
    assert (escalated["to"], escalated["type"]) == ("@human-governor", "alert.dead-letter/1")
    assert escalated["payload"].items() >= {"agent": "qa", "reason": "refused", "count": 7, "repeated": True}.items()
    load_registry(tmp_path, RATES_DEFAULT).find(escalated["type"]).check(escalated, "adapter")
    for _ in range(10):
        kill(bench)
        bench.wait(10)
    assert inbox(bench) == []


def test_a_restart_forgets_no_part_of_a_pattern(bench):
    """Counts are in the store, told or not."""
    for _ in range(5):
        kill(bench)
        bench.restart()
    bench.wait(10)
    assert [one["payload"]["count"] for one in inbox(bench)] == [5]
    bench.restart()
    bench.wait(100)
    assert inbox(bench) == []


def test_a_refused_critical_send_alarms_the_governor_at_once(make_bench):
    """The send changes nothing, and yet its alarm is kept, over a restart too (promise 7)."""
    bench = make_bench(policy(alert_window_seconds=10, queue_max=1, critical_reserve=1))
    bench.group(send(to="@qa", critical=True), send(to="@qa", critical=True))
    assert bench.refused(send(to="@qa", critical=True)).kind == "queue-full"
    bench.restart()
    for _ in range(3):
        bench.refused(send(to="@qa", critical=True))
    bench.wait(0)
    (alarm,) = inbox(bench)
    assert alarm["type"] == "alert.queue/1"
    assert alarm["payload"].items() >= {"agent": "qa", "count": 4, "repeated": False, "unread": 2}.items()
    bench.refused(send(to="@qa", critical=True))
    bench.wait(3_599)
    assert inbox(bench) == []
    bench.wait(1)
    assert [one["payload"]["count"] for one in inbox(bench)] == [1]


def test_a_normal_newcomer_alarms_nobody(make_bench):
    """It is a dead letter, which is counted as such."""
    bench = make_bench(policy(alert_window_seconds=10, queue_max=1, critical_reserve=1))
    bench.send(to="@qa", critical=True)
    bench.send(to="@qa")
    bench.wait(0)
    assert inbox(bench) == []


def test_too_many_open_dead_letters_are_told_once(bench):
    """All are kept. The next is told when they had become fewer by a tenth, and a restart repeats nothing."""
    kill(bench, 19)
    bench.wait(0)
    assert inbox(bench) == []
    kill(bench, 1)
    bench.wait(0)
    assert [one["payload"]["reason"] for one in inbox(bench)] == ["20 or more"]
    bench.restart()
    kill(bench, 5)
    assert [bench.do(Resolve(number, "qa", None)).status for number in range(1, 7)] == ["dead"] * 6
    kill(bench, 1)
    bench.wait(3_600)
    assert [one["payload"]["count"] for one in inbox(bench) if "open" in one["payload"]["summary"].lower()] == []
    for number in range(7, 11):
        bench.do(Resolve(number, "qa", None))
    kill(bench, 10)
    bench.wait(3_600)
    assert len([one for one in inbox(bench) if one["payload"]["reason"] == "20 or more"]) == 1


def test_an_alert_that_dies_for_the_governor_raises_none(make_bench):
    """Its inbox is full, and nothing loops."""
    bench = make_bench(policy(alert_window_seconds=10, queue_max=1, critical_reserve=0, repeats=1))
    bench.send(to="@human-governor")
    kill(bench)
    bench.wait(10)
    assert bench.states(4) == {GOVERNOR: "dead"}
    before = bench.engine.snapshot().last_message_id
    bench.wait(10_000)
    assert bench.engine.snapshot().last_message_id == before


def test_what_other_parts_raise_is_told_as_the_table_says(bench):
    """An alarm in the books of a group is counted with that group."""
    bench.exchange._books.changes.alarms.clear()
    handlers = bench.exchange._handlers

    def raise_alarm(_, __, ___):
        bench.exchange._books.changes.alarms.append(Alarm(AlarmKind.TOPOLOGY, "orchestrator", "change 1"))

    original = handlers[Tick]
    handlers[Tick] = raise_alarm
    bench.do(Tick())
    handlers[Tick] = original
    bench.wait(0)
    (told,) = inbox(bench)
    assert (told["type"], told["payload"]["agent"]) == ("alert.topology/1", "orchestrator")
