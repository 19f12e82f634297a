"""Scheduled sends: outside their channel until their time, then like any other; cancelled, failed, and never lost."""

import itertools
import json

import pytest

from adapter.core.appointment import TRANSITIONS, Appointment, AppointmentState, Turn
from adapter.core.commands import CancelScheduled, Scheduled, SendBatch, Sent, Settled, Tick
from adapter.core.policy import Now
from adapter.core.rates import Rate
from adapter.core.scheduling import RELEASES_MAX
from adapter.core.timetable import Timetable
from shared.limits import SCHEDULED_PER_SENDER_MAX
from shared.problems import Problem
from tests.support.clock import us
from tests.support.engines import ask
from tests.support.factories import START_US, UNLIMITED, claim, new_key, now, policy, scheduled, send


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


def cancel(command, sender="pm"):
    """The command that cancels it."""
    return CancelScheduled(sender, command.idempotency_key)


@pytest.mark.parametrize(("standing", "turn"), list(itertools.product(AppointmentState, Turn)))
def test_what_is_not_in_the_table_changes_nothing(standing, turn):
    """Every pair of state and event."""
    appointment = Appointment(1, "pm", b"k", 0, standing)
    if (standing, turn) in TRANSITIONS:
        assert appointment.after(turn).standing is TRANSITIONS[standing, turn]
    else:
        with pytest.raises(ValueError, match="cannot"):
            appointment.after(turn)


def test_a_scheduled_send_waits_outside_its_channel(bench):
    """It has no sequence and holds up nothing of its line, until the tick that is due at its time."""
    outcome = bench.do(scheduled(to="@qa", at=60, payload={"text": "later"}))
    assert outcome == Scheduled(duplicate=False, deliver_at_us=START_US + us(60))
    assert bench.send(to="@qa", payload={"text": "now"}).sequence == 1
    handed = bench.poll()
    assert texts(handed) == ["now"]
    bench.ack(*handed)
    bench.wait(59.999)
    assert bench.poll() == []
    bench.wait(0.001)
    assert texts(bench.poll()) == ["later"]


def test_from_its_release_on_it_takes_part_in_order(bench):
    """It is behind what was sent before its release, and ahead of what is sent after it (promise 3)."""
    bench.do(scheduled(to="@qa", at=5, payload={"text": "second"}))
    bench.send(to="@qa", payload={"text": "first"})
    (first,) = bench.poll()
    bench.wait(5)
    bench.send(to="@qa", payload={"text": "third"})
    assert bench.poll() == []
    bench.ack(first)
    assert texts(bench.poll()) == ["second", "third"]


def test_at_its_time_it_is_a_message_like_any_other(bench):
    """With the next sequence, the time of its release, and `deliver_at` as its sender wrote it."""
    command = scheduled(to="@qa", at=60, payload={"text": "later"})
    bench.do(command)
    bench.ack(*bench.poll())
    bench.wait(60)
    (handed,) = bench.poll()
    envelope = json.loads(handed.envelope)
    assert envelope == command.envelope | {
        "channel_sequence_id": 1, "timestamp_iso8601": "2027-01-15T08:01:00.000000Z", "priority": "normal",
    }  # fmt: skip
    assert row(bench, command) is None


def test_a_time_that_has_passed_means_now(bench):
    """As the adapter's wall clock has it when the send is decided."""
    assert bench.do(scheduled(at=0)).sequence == 1
    assert bench.do(scheduled(at=-3600)).sequence == 2


def test_the_tick_is_asked_for_at_the_first_time(bench):
    """The loop sleeps until then."""
    bench.group(scheduled(at=50), scheduled(at=20), scheduled(at=90))
    assert bench.exchange.next_due_us() == START_US + us(20)


def test_of_the_same_time_the_first_accepted_goes_first(bench):
    """Over a restart too; an earlier time goes before a later one, whoever came first."""
    late = [scheduled(to="@qa", at=60, payload={"text": f"late {n}"}) for n in range(5)]
    bench.group(*late, scheduled(to="@qa", at=30, payload={"text": "early"}))
    bench.restart()
    bench.wait(60)
    assert texts(bench.poll()) == ["early", *(f"late {n}" for n in range(5))]


def test_a_parked_poll_is_served_by_the_release(bench):
    """In the same transaction, as by a send."""
    bench.do(scheduled(to="@qa", at=5))
    bench.do(claim("qa", park=True, ticket=9))
    bench.wait(5)
    assert [ticket for ticket, _, _ in bench.exchange.handed_over] == [9]


# The key


def test_the_same_send_again_is_the_scheduled_answer_and_then_the_duplicate(bench):
    """The key is remembered from acceptance on, before its time and after it (promise 2)."""
    command = scheduled(to="@qa", at=60)
    bench.do(command)
    assert bench.do(command) == Scheduled(duplicate=True, deliver_at_us=START_US + us(60))
    bench.restart()
    assert bench.do(command).duplicate
    bench.wait(60)
    again = bench.do(command)
    assert (type(again), again.duplicate, again.sequence) == (Sent, True, 1)
    assert len(bench.poll()) == 1


def test_a_duplicate_in_the_same_group_is_one_appointment(bench):
    """Before anything of it is on disk."""
    command = scheduled(at=60)
    first, again = bench.group(command, command)
    assert (first.duplicate, again.duplicate) == (False, True)


@pytest.mark.parametrize("later", [None, 60, 90, -5])
def test_other_content_under_its_key_is_a_conflict(bench, later):
    """Whether that has a time, and whichever."""
    key = new_key()
    bench.do(scheduled(at=60, idempotency_key=key))
    fields = {"idempotency_key": key, "payload": {"text": "other"}}
    other = send(**fields) if later is None else scheduled(at=later, **fields)
    assert bench.refused(other).kind == "idempotency-conflict"


def test_a_key_that_was_sent_cannot_be_scheduled(bench):
    """Used is used."""
    key = new_key()
    bench.send(idempotency_key=key)
    assert bench.refused(scheduled(at=60, idempotency_key=key)).kind == "idempotency-conflict"


# What is refused at once


@pytest.mark.parametrize(
    ("fields", "kind", "field"),
    [
        ({"at": 30 * 86_400 + 1}, "invalid-field", "/deliver_at"),
        ({"at": 60, "expires": 60}, "invalid-field", "/expires_at"),
        ({"at": 60, "deadline": "2027-01-15T08:00:59Z"}, "invalid-field", "/deadline"),
        ({"at": 60, "to": "nowhere"}, "unknown-recipient", "/to"),
        ({"at": 60, "to": "platform", "sender": "qa"}, "not-a-member", "/to"),
        ({"at": 60, "reply_to_sequence_id": 9}, "invalid-field", "/reply_to_sequence_id"),
    ],
)
def test_what_could_never_be_sent_is_refused_at_once(bench, fields, kind, field):
    """And nothing of it stays."""
    command = scheduled(**fields)
    problem = bench.refused(command)
    assert (problem.kind, problem.field, problem.retryable) == (kind, field, False)
    assert row(bench, command) is None


def test_thirty_days_ahead_are_taken(bench):
    """To the second."""
    assert isinstance(bench.do(scheduled(at=30 * 86_400)), Scheduled)


def test_a_sender_schedules_so_many_at_most(bench):
    """Beyond: 429 and no retry of our own, since it may last for weeks; others may, and a cancelled one makes room."""
    commands = [scheduled(at=60) for _ in range(SCHEDULED_PER_SENDER_MAX)]
    bench.group(*commands)
    problem = bench.refused(scheduled(at=60))
    assert (problem.kind, problem.status, problem.retryable) == ("schedule-full", 429, False)
    assert isinstance(bench.do(scheduled("qa", at=60)), Scheduled)
    bench.do(cancel(commands[7]))
    assert isinstance(bench.do(scheduled(at=60)), Scheduled)
    assert bench.refused(scheduled(at=60)).kind == "schedule-full"


def test_its_rate_is_counted_once_and_when_it_is_accepted(make_bench):
    """One token for each, and none at the release."""
    bench = make_bench(policy(rates=UNLIMITED | {"normal": Rate(1, 3)}))
    outcomes = bench.group(*(scheduled(to="@qa", at=5) for _ in range(4)))
    assert [type(outcome) for outcome in outcomes] == [Scheduled] * 3 + [Problem]
    assert outcomes[3].kind == "rate-limited"
    bench.seconds = 3
    bench.group(*(send(to="@pm") for _ in range(3)))
    bench.seconds = 5
    bench.do(Tick())
    assert len(bench.poll()) == 3


def test_a_scheduled_one_in_a_batch_holds_nobody_back(bench):
    """Each outcome stands in its place."""
    outcomes = bench.do(SendBatch((send(), scheduled(at=60), send())))
    assert [type(outcome) for outcome in outcomes] == [Sent, Scheduled, Sent]
    assert [outcomes[0].sequence, outcomes[2].sequence] == [1, 2]


# Clocks


def tick(bench, wall_seconds, steady_seconds):
    """A tick with the two clocks apart."""
    at = Now(START_US + us(wall_seconds), START_US + us(steady_seconds))
    ask(bench.exchange, bench.engine, at, Tick())


@pytest.mark.parametrize("step", [-86_400, 86_400])
def test_a_step_of_the_wall_clock_neither_fires_nor_freezes(bench, step):
    """Sixty seconds are sixty steady seconds, whatever the wall says meanwhile; its end is moved as little."""
    bench.do(scheduled(to="@qa", at=60, expires=70))
    tick(bench, 59 + step, 59)
    assert bench.poll() == []
    tick(bench, 60 + step, 60)
    bench.seconds = 61
    assert len(bench.poll()) == 1


def test_the_time_is_the_walls_when_it_is_accepted(bench):
    """Sixty seconds from then, also where the wall is an hour off the steady clock."""
    (outcome,) = ask(bench.exchange, bench.engine, Now(START_US - us(3_600), START_US), scheduled(to="@qa", at=-3_540))
    assert isinstance(outcome, Scheduled)
    assert bench.exchange.next_due_us() == START_US + us(60)


def test_after_a_restart_the_wall_clock_counts(bench):
    """The process was away for an hour: what was due in it is sent at once."""
    bench.do(scheduled(to="@qa", at=60))
    bench.seconds = 3_600
    bench.restart()
    assert bench.exchange.next_due_us() <= START_US + us(3_600)
    bench.do(Tick())
    assert len(bench.poll()) == 1


def test_many_of_one_time_are_sent_in_small_groups(bench):
    """So that other commands come between; the next tick is due at once."""
    for start in range(0, 2 * RELEASES_MAX + 1, 50):
        count = min(50, 2 * RELEASES_MAX + 1 - start)
        bench.group(*(scheduled(to="@qa", at=60) for _ in range(count)))
    bench.seconds = 60
    depths = []
    for _ in range(3):
        bench.do(Tick())
        depths.append(bench.exchange.depths()["qa"])
    assert depths == [RELEASES_MAX, 2 * RELEASES_MAX, 2 * RELEASES_MAX + 1]


# Cancelling


def test_a_cancelled_one_is_not_sent(bench):
    """Cancelling twice is as good as once, and so is a restart in between."""
    command = scheduled(to="@qa", at=60)
    bench.do(command)
    assert bench.do(cancel(command)) == Settled("cancelled")
    bench.restart()
    assert bench.do(cancel(command)) == Settled("cancelled")
    bench.wait(3_600)
    assert bench.poll() == []


def test_a_late_copy_does_not_bring_a_cancelled_one_back(bench):
    """A send that waited in an outbox, or whose answer was lost, is refused; over a restart too."""
    command = scheduled(to="@qa", at=60)
    bench.do(command)
    bench.do(cancel(command))
    for _ in range(2):
        problem = bench.refused(command)
        assert (problem.kind, problem.retryable) == ("not-scheduled", False)
        assert "cancelled" in problem.detail
        bench.restart()
    bench.seconds = 120
    assert bench.refused(command).kind == "not-scheduled"


def test_of_a_cancelled_one_only_the_key_is_kept(bench):
    """Its content is gone from the store."""
    command = scheduled(at=60)
    bench.do(command)
    bench.do(cancel(command))
    assert row(bench, command).send.envelope == {}


def test_what_was_sent_cannot_be_cancelled_and_says_where_it_is(bench):
    """Too late is told, with the place; unknown keys and those of others are not found."""
    command = scheduled(to="@qa", at=60)
    bench.do(command)
    bench.wait(60)
    problem = bench.refused(cancel(command))
    assert (problem.kind, problem.extra) == ("not-scheduled", {"channel": "@qa", "channel_sequence_id": 1})
    assert bench.refused(cancel(scheduled(at=60))).kind == "not-found"
    assert bench.refused(cancel(command, "qa")).kind == "not-found"


def test_a_timer_of_a_key_that_went_does_not_fire_for_its_next_use(bench):
    """Cancelled so long ago that the key was forgotten, and scheduled anew for later."""
    timetable, command, later = Timetable([], now()), scheduled(at=60), scheduled(at=600)
    key = (command.sender, command.idempotency_key)
    with bench.engine.begin() as store:
        timetable.add(command, command.deliver_at_us, store, now())
        timetable.remove(key)
        timetable.add(command, later.deliver_at_us, store, now())
    assert timetable.take_due(START_US + us(60), 10) == []
    assert timetable.take_due(START_US + us(600), 10) == [key]


def test_thousands_that_are_cancelled_leave_no_timers(bench):
    """Memory follows what waits, not what ever did."""
    timetable = Timetable([], now())
    with bench.engine.begin() as store:
        for number in range(1_000):
            command = scheduled(at=60 + number)
            timetable.add(command, command.deliver_at_us, store, now())
            timetable.remove((command.sender, command.idempotency_key))
    assert len(timetable._due) <= 64 + 2
