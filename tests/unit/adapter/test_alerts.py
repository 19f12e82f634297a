"""Alerts about dead letters: one in a window, with the count, and never about themselves."""

import json

import pytest

from adapter.contracts import load_registry
from adapter.core.alerts import PendingAlerts
from adapter.core.commands import Nack
from shared.config import RATES_DEFAULT
from shared.envelope import StoredEnvelope
from shared.model import check
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
    """The payloads of the alerts that wait for an agent, which takes them."""
    handed = bench.poll(agent, 100)
    bench.ack(*handed, recipient=agent)
    return [json.loads(one.envelope)["payload"] for one in handed]


def test_deaths_of_a_window_are_one_alert(bench):
    """At the end of the window, with their number; nothing before it, and nothing after it."""
    kill(bench, 3)
    bench.wait(9.9)
    kill(bench, 2)
    assert alerts(bench) == []
    assert bench.exchange.next_due_us() is not None
    bench.wait(0.1)
    assert alerts(bench) == [{"agent": "qa", "reason": "refused", "count": 5}]
    bench.wait(100)
    assert alerts(bench) == []


def test_each_agent_and_reason_has_its_own_window(bench):
    """So an alert says what is wrong where."""
    kill(bench, 2)
    bench.wait(5)
    bench.send(to="@growth", expires_at_us=START_US + us(bench.seconds + 1))
    bench.wait(1)
    bench.wait(4)
    assert alerts(bench) == [{"agent": "qa", "reason": "refused", "count": 2}]
    bench.wait(6)
    assert alerts(bench) == [{"agent": "growth", "reason": "expired", "count": 1}]


def test_the_next_death_opens_the_next_window(bench):
    """A storm of a minute is six alerts, not thousands."""
    told = []
    for _ in range(60):
        kill(bench, 5)
        bench.wait(1)
        told += alerts(bench)
    bench.wait(10)
    told += alerts(bench)
    assert sum(alert["count"] for alert in told) == 300
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


def test_a_restart_loses_no_alert(bench):
    """What was counted is stored with the deaths, and told by the next process."""
    kill(bench, 4)
    bench.restart()
    kill(bench, 1)
    bench.wait(10)
    assert alerts(bench) == [{"agent": "qa", "reason": "refused", "count": 5}]
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
    assert alerts(bench, "pm") == [{"agent": "qa", "reason": "refused", "count": 1}]


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


def test_without_a_platform_nobody_is_told(make_bench):
    """Nothing is stored and nothing becomes due."""
    members = topology()
    del members.members["platform"]
    bench = make_bench(policy(alert_window_seconds=10), members)
    kill(bench)
    bench.wait(100)
    assert bench.exchange.next_due_us() is None
    assert bench.engine.snapshot().last_message_id == 1
    assert bench.engine.snapshot().alert_counts == {}


def test_a_window_is_due_once():
    """What was taken is gone until something is counted again."""
    pending = PendingAlerts(10, {("qa", "refused"): 2, ("pm", "refused"): 0}, 100)
    assert pending.next_due_us() == 110
    assert pending.count(("qa", "refused"), 105) == 3
    assert pending.take_due(109) == {}
    assert pending.take_due(110) == {("qa", "refused"): 3}
    assert (pending.next_due_us(), pending.take_due(999)) == (None, {})
