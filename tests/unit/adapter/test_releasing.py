"""When a scheduled send is due: checked again, waited for, sent once, or kept as failed; never lost."""

import json

import pytest

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.appointment import AppointmentState
from adapter.core.commands import CancelScheduled, Settled, Tick
from adapter.core.exchange import Exchange
from adapter.core.scheduling import RELEASES_MAX
from shared.limits import SCHEDULED_PER_SENDER_MAX
from tests.support.factories import now, policy, scheduled, topology


def alarms(bench):
    """What the last group reported."""
    return bench.exchange._books.changes.alarms


def texts(handed):
    """The payload texts of hand-overs."""
    return [json.loads(item.envelope)["payload"]["text"] for item in handed]


def row(bench, command):
    """What the store has of a scheduled send."""
    with bench.engine.begin() as store:
        return store.find_scheduled(command.sender, command.idempotency_key)


def cancel(command):
    """The command that cancels it."""
    return CancelScheduled("pm", command.idempotency_key)


def test_a_full_queue_is_waited_for(make_bench):
    """A critical one is tried again until there is room; the others of its time go on."""
    bench = make_bench(policy(queue_max=1, critical_reserve=0))
    bench.send(to="@qa", critical=True)
    command = scheduled(to="@qa", at=60, critical=True, payload={"text": "in the end"})
    bench.group(command, scheduled(to="@pm", at=60))
    bench.wait(60)
    assert len(bench.poll("pm")) == 1
    assert row(bench, command) is not None
    assert alarms(bench) == []
    bench.ack(*bench.poll())
    bench.wait(4.9)
    assert bench.poll() == []
    bench.wait(0.1)
    assert texts(bench.poll()) == ["in the end"]


def test_recipients_are_those_of_its_time(bench):
    """Who has joined since gets it, and who has left does not."""
    bench.do(scheduled(to="platform", at=60))
    bench.topology = topology(platform=("pm", "growth", "adapter"))
    bench.restart()
    bench.wait(60)
    assert bench.states(1) == {"pm": "queued", "growth": "queued", "adapter": "acked"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (topology(platform=("orchestrator", "adapter")), "not-a-member"),
        (topology(agents=("orchestrator", "engineering")), "not-a-member"),
    ],
)
def test_what_may_not_be_sent_any_more_stays_visible(bench, members, reason):
    """As failed, with the reason, over restarts, until somebody cancels it; people are told once."""
    command = scheduled(to="platform", at=60)
    bench.do(command)
    bench.topology = members
    bench.restart()
    bench.wait(60)
    assert alarms(bench) == [Alarm(AlarmKind.SCHEDULE, "pm", reason)]
    bench.restart()
    bench.wait(3_600)
    assert alarms(bench) == []
    failed = row(bench, command)
    assert (failed.appointment.standing, failed.reason, failed.send) == (AppointmentState.FAILED, reason, command)
    assert failed.detail
    assert "has failed" in bench.refused(command).detail
    assert bench.do(cancel(command)) == Settled("cancelled")


def test_people_are_told_of_what_was_not_sent(make_bench):
    """On `platform`, with whose it is and why."""
    bench = make_bench(policy(alert_window_seconds=1.0))
    bench.do(scheduled("engineering", "platform", at=60))
    bench.topology = topology(platform=("orchestrator", "adapter"))
    bench.restart()
    bench.wait(60)
    bench.wait(1)
    (alert,) = [json.loads(handed.envelope) for handed in bench.poll("orchestrator")]
    assert (alert["type"], alert["payload"]["agent"], alert["payload"]["reason"]) == (
        "alert.schedule/1", "engineering", "not-a-member",
    )  # fmt: skip


def test_what_ended_while_the_adapter_was_away_has_failed(bench):
    """It is not sent after its `expires_at`, and not forgotten."""
    command = scheduled(to="@qa", at=60, expires=70)
    bench.do(command)
    bench.seconds = 3_600
    bench.restart()
    bench.do(Tick())
    assert (row(bench, command).reason, bench.poll()) == ("expired", [])


def test_failed_ones_count_against_the_bound(bench):
    """Until they are cancelled: else there would be none."""
    commands = [scheduled(to="platform", at=60) for _ in range(SCHEDULED_PER_SENDER_MAX)]
    bench.group(*commands)
    bench.topology = topology(platform=("orchestrator", "adapter"))
    bench.restart()
    bench.seconds = 60
    for _ in range(SCHEDULED_PER_SENDER_MAX // RELEASES_MAX):
        bench.do(Tick())
    assert bench.refused(scheduled(to="@qa", at=90)).kind == "schedule-full"
    bench.restart()
    assert bench.refused(scheduled(to="@qa", at=90)).kind == "schedule-full"


class DiskFullError(Exception):
    """Ends a transaction badly."""


def tick_and_fail(bench):
    """The tick that is due, rolled back."""
    with bench.engine.begin() as store:
        bench.exchange.apply([Tick()], store, now(bench.seconds))
        raise DiskFullError


def test_a_release_is_one_transaction(bench):
    """Where it is rolled back, the message is scheduled still, and is sent once by the next process."""
    command = scheduled(to="@qa", at=60)
    bench.do(command)
    bench.seconds = 60
    with pytest.raises(DiskFullError):
        tick_and_fail(bench)
    bench.exchange = Exchange(bench.topology, bench.engine.snapshot(), bench.policy, now(60))
    assert row(bench, command) is not None
    bench.do(Tick())
    bench.restart()
    bench.do(Tick())
    assert len(bench.poll()) == 1
    assert bench.do(command).sequence == 1
