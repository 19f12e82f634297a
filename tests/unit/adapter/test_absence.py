"""Agents that do not poll while messages wait: who is told, when, and how often."""

import json

import pytest

from adapter.contracts import load_registry
from adapter.core.commands import Extend, Unpark
from shared.config import RATES_DEFAULT
from shared.names import GOVERNOR
from shared.times import iso
from tests.support.clock import us
from tests.support.factories import START_US, claim, policy, send, topology

STEP = 5.0


@pytest.fixture
def bench(make_bench):
    return make_bench(policy(alert_window_seconds=10, absence_seconds=120, absence_governor_seconds=600))


def live(bench, seconds, present=()):
    """Time passes in steps, with the ticks; those who are present poll in each of them."""
    for _ in range(round(seconds / STEP)):
        bench.wait(STEP)
        for agent in present:
            bench.ack(*bench.poll(agent), recipient=agent)


def told(bench, recipient):
    """(agent, reason) of the absences that an agent or the Governor is told of, which takes them."""
    handed = bench.poll(recipient, 100)
    bench.ack(*handed, recipient=recipient)
    envelopes = [json.loads(one.envelope) for one in handed]
    alerts = [one["payload"] for one in envelopes if one["type"] == "alert.absence/1"]
    return [(payload["agent"], payload["reason"]) for payload in alerts]


def test_the_orchestrator_is_told_then_the_governor(bench):
    """Each once, in time, and of nobody who polls (promise 5)."""
    bench.send(to="@qa")
    live(bench, 115)
    assert told(bench, "orchestrator") == []
    live(bench, 25)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]
    live(bench, 440, ["orchestrator"])
    assert told(bench, GOVERNOR) == []
    live(bench, 85, ["orchestrator"])
    assert told(bench, GOVERNOR) == [("qa", "no poll for 600 s")]
    live(bench, 3_000, ["orchestrator"])
    assert told(bench, GOVERNOR) == []


def test_an_alert_says_how_many_wait_and_since_when(bench, tmp_path):
    """As its contract demands."""
    bench.poll("qa")
    bench.group(send(to="@qa"), send(to="@qa"))
    live(bench, 140)
    (handed,) = bench.poll("orchestrator")
    envelope = json.loads(handed.envelope)
    assert envelope["to"] == "@orchestrator"
    assert envelope["payload"].items() >= {"agent": "qa", "unread": 2, "last_seen": iso(START_US)}.items()
    load_registry(tmp_path, RATES_DEFAULT).find(envelope["type"]).check(envelope, "adapter")


def test_a_poll_ends_the_absence(bench):
    """Also one that leaves messages behind: the next absence is counted from it, and told anew."""
    bench.group(*(send(to="@qa") for _ in range(3)))
    live(bench, 140)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]
    bench.poll("qa", 1)
    live(bench, 110)
    assert told(bench, "orchestrator") == []
    live(bench, 30)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]
    live(bench, 400, ["orchestrator"])
    assert told(bench, GOVERNOR) == []


def test_an_empty_queue_makes_nobody_absent(bench):
    """Nor does one whose messages have expired meanwhile."""
    live(bench, 1_000)
    assert told(bench, "orchestrator") == []
    bench.send(to="@qa", expires_at_us=START_US + us(bench.seconds + 60))
    live(bench, 100)
    bench.send(to="@qa")
    live(bench, 100)
    assert told(bench, "orchestrator") == []


def test_a_parked_poll_is_presence(make_bench):
    """However long it waits for what may not be handed out yet; when it ends, the time begins."""
    late = policy(
        alert_window_seconds=10, absence_seconds=120, absence_governor_seconds=600,
        retry_base_seconds=5_000, retry_cap_seconds=5_000,
    )  # fmt: skip
    bench = make_bench(late)
    bench.send(to="@qa")
    (handed,) = bench.poll("qa")
    bench.nack(handed, "fail")
    bench.do(claim("qa", park=True, ticket=900))
    live(bench, 300)
    bench.do(Unpark("qa", 900))
    live(bench, 110)
    assert told(bench, "orchestrator") == []
    live(bench, 30)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]


def test_messages_in_its_hands_do_not_wait(bench):
    """An agent that works on what it took is not absent."""
    bench.send(to="@qa")
    (handed,) = bench.poll("qa")
    for _ in range(10):
        bench.do(Extend("qa", (handed.delivery_id,), us(60)))
        live(bench, 50)
    assert told(bench, "orchestrator") == []


def test_an_absent_orchestrator_is_the_governors_at_once(bench):
    """Nobody else would read it."""
    bench.send(to="@orchestrator")
    live(bench, 140)
    assert told(bench, GOVERNOR) == [("orchestrator", "no poll for 120 s")]


def test_without_an_orchestrator_the_governor_is_told(make_bench):
    """There is always somebody."""
    members = topology(("pm", "qa"), platform=("pm", "adapter"))
    bench = make_bench(policy(alert_window_seconds=10, absence_seconds=120, absence_governor_seconds=600), members)
    bench.send(to="@qa")
    live(bench, 140, ["pm"])
    assert told(bench, GOVERNOR) == [("qa", "no poll for 120 s")]


def test_the_governor_is_never_absent(bench):
    """Humans come when they come."""
    bench.send(to="@human-governor")
    live(bench, 2_000, ["orchestrator"])
    assert told(bench, "orchestrator") == []
    assert told(bench, GOVERNOR) == []


def test_a_restart_gives_everybody_time(bench):
    """Agents may come back after their adapter; what was seen of them is remembered but for a minute."""
    bench.send(to="@qa")
    live(bench, 30)
    bench.poll("pm")
    live(bench, 70)
    bench.restart()
    assert bench.exchange.last_seen()["pm"] == START_US + us(30)
    live(bench, 110)
    assert told(bench, "orchestrator") == []
    live(bench, 30)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]
    report = bench.send(to="@pm").recipients[0]
    assert (report.unread, report.last_seen_us) == (1, START_US + us(30))


def test_what_was_seen_is_written_once_a_minute(bench, monkeypatch):
    """However often agents poll, and not at all when nobody does."""
    written = []
    monkeypatch.setattr("adapter.store.memory.MemoryTransaction.save_last_seen", lambda _, seen: written.append(seen))
    live(bench, 600, ["qa", "pm"])
    assert 9 <= len(written) <= 10
    assert set(written[-1]) == {"qa", "pm"}
    written.clear()
    live(bench, 120)
    assert len(written) <= 1
    live(bench, 600)
    assert len(written) <= 1


def test_an_agent_that_comes_back_to_the_deployment_begins_anew(bench):
    """What it missed while it was none is not held against it."""
    bench.send(to="@qa")
    live(bench, 60)
    role = bench.topology.roles.pop("qa")
    live(bench, 60)
    bench.topology.roles["qa"] = role
    live(bench, 110)
    assert told(bench, "orchestrator") == []
    live(bench, 30)
    assert told(bench, "orchestrator") == [("qa", "no poll for 120 s")]
