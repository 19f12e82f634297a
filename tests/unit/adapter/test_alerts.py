"""Alerts about dead letters: one in a window, with the count, and never about themselves."""

import json

import pytest

from adapter.contracts import load_registry
from adapter.core.commands import Nack
from shared.config import RATES_DEFAULT
from shared.envelope import StoredEnvelope
from shared.model import check
from shared.times import iso
from tests.support.clock import us
from tests.support.factories import START_US, policy, send, topology

MEMBERS = topology(platform=("orchestrator", "pm", "adapter"))


@pytest.fixture
def bench(make_bench):
    """Who is on `platform` is told."""
    return make_bench(policy(alert_window_seconds=10), MEMBERS)


def kill(bench, count=1, to="@qa", reason="refuse"):
    """Messages for qa that it refuses."""
    bench.group(*(send(to=to) for _ in range(count)))
    for handed in bench.poll(count=count):
        bench.nack(handed, reason)


def alerts(bench, agent="orchestrator"):
    """(agent, reason, count) of the alerts that wait for an agent, which takes them."""
    handed = bench.poll(agent, 100)
    bench.ack(*handed, recipient=agent)
    payloads = [json.loads(one.envelope)["payload"] for one in handed]
    return [(payload["agent"], payload["reason"], payload["count"]) for payload in payloads]


def test_deaths_of_a_window_are_one_alert(bench):
    """At the end of the window, with their number; nothing before it, and nothing after it."""
    kill(bench, 3)
    bench.wait(9.9)
    kill(bench, 2)
    assert alerts(bench) == []
    assert bench.exchange.next_due_us() is not None
    bench.wait(0.1)
    assert alerts(bench) == [("qa", "refused", 5)]
    bench.wait(100)
    assert alerts(bench) == []


def test_each_agent_and_reason_has_its_own_window(bench):
    """So an alert says what is wrong where."""
    kill(bench, 2)
    bench.wait(5)
    bench.send(to="@growth", expires_at_us=START_US + us(bench.seconds + 1))
    bench.wait(1)
    bench.wait(4)
    assert alerts(bench) == [("qa", "refused", 2)]
    bench.wait(6)
    assert alerts(bench) == [("growth", "expired", 1)]


def test_the_next_death_opens_the_next_window(bench):
    """A storm of a minute is six alerts, not thousands."""
    told = []
    for _ in range(60):
        kill(bench, 5)
        bench.wait(1)
        told += alerts(bench)
    bench.wait(10)
    told += alerts(bench)
    assert sum(count for _, _, count in told) == 300
    assert len(told) <= 7


def test_an_alert_is_a_message_like_any_other(bench, tmp_path):
    """It has a place in `platform`, fulfils its contract, is critical, and is stored for each member."""
    kill(bench)
    bench.wait(10)
    (handed,) = bench.poll("orchestrator")
    envelope = json.loads(handed.envelope)
    model = check(StoredEnvelope, envelope)
    assert (model.sender, model.to, model.channel_sequence_id, model.priority) == ("adapter", "platform", 1, "critical")
    assert model.signature is None
    registry = load_registry(tmp_path, RATES_DEFAULT)
    registry.find(model.type).check(envelope, "adapter")
    assert bench.states(2) == {"orchestrator": "leased", "pm": "queued", "adapter": "acked"}
    assert model.payload == {
        "summary": "Messages for qa that are dead (refused): 1.",
        "agent": "qa",
        "reason": "refused",
        "count": 1,
        "since": iso(START_US),
        "repeated": False,
        "unread": 0,
        "last_seen": iso(START_US),
    }


def test_a_restart_loses_no_alert(bench):
    """What was counted is stored with the deaths, and told by the next process."""
    kill(bench, 4)
    bench.restart()
    kill(bench, 1)
    bench.wait(10)
    assert alerts(bench) == [("qa", "refused", 5)]
    bench.restart()
    bench.wait(100)
    assert alerts(bench) == []


def test_an_alert_that_dies_raises_none(bench):
    """Alerts about alerts do not loop."""
    kill(bench)
    bench.wait(10)
    (handed,) = bench.poll("orchestrator")
    bench.do(Nack("orchestrator", handed.delivery_id, "refuse", None))
    assert bench.letter(2, "orchestrator").last.reason == "refused"
    bench.wait(100)
    assert alerts(bench) == []
    assert alerts(bench, "pm") == [("qa", "refused", 1)]


def test_an_alert_evicts_nothing(make_bench):
    """It takes the reserve, and beyond that it is dead for that one member: else each would bring about the next."""
    bench = make_bench(policy(queue_max=2, critical_reserve=1, alert_window_seconds=10), MEMBERS)
    bench.group(send(to="@pm"), send(to="@pm"))
    kill(bench)
    bench.wait(10)
    kill(bench)
    bench.wait(10)
    assert [bench.states(n)["pm"] for n in (1, 2)] == ["queued", "queued"]
    assert [bench.states(n)["pm"] for n in (4, 6)] == ["queued", "dead"]
    assert len(alerts(bench)) == 2
    bench.wait(100)
    assert alerts(bench) == []


def test_without_a_platform_the_orchestrators_are_told(make_bench):
    """On their own channels; with none of them either nobody is, and nothing is stored."""
    members = topology()
    del members.members["platform"]
    bench = make_bench(policy(alert_window_seconds=10), members)
    kill(bench)
    bench.wait(10)
    assert alerts(bench) == [("qa", "refused", 1)]
    assert bench.states(2) == {"orchestrator": "acked"}
    without = make_bench(policy(alert_window_seconds=10), topology(("pm", "qa"), platform=("adapter",)))
    del without.topology.members["platform"]
    kill(without)
    without.wait(100)
    assert without.engine.snapshot().last_message_id == 1
