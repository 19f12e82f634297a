"""Sends: place, deduplication, bounded queues, and what the sender is told."""

import json

import pytest

from adapter.core.commands import SendBatch, Sent
from adapter.core.expiry import ends_at_us
from adapter.core.policy import Now
from shared.problems import Problem
from tests.support.engines import ask
from tests.support.factories import AGENTS, claim, new_key, now, policy, send


def stored(bench, channel, sequence):
    with bench.engine.begin() as store:
        return json.loads(store.envelope_at(channel, sequence))


def test_sequences_are_contiguous_in_each_channel(bench):
    """From 1, whatever the group they came in (promise 3)."""
    sent = bench.group(send(to="product"), send(to="@qa"), send(to="product"))
    assert [(s.channel, s.sequence) for s in sent] == [("product", 1), ("@qa", 1), ("product", 2)]
    assert bench.send(to="product").sequence == 3


def test_a_refused_send_takes_no_sequence(bench):
    """Readers would take the hole for loss (nats-server#3006)."""
    bench.send()
    assert isinstance(bench.do(send(expires_at_us=1)), Problem)
    assert bench.send().sequence == 2


def test_the_adapter_sets_its_fields_and_keeps_the_rest(bench):
    """What arrives is what was written, with place, time and priority."""
    command = send(to="platform", critical=True, payload={"b": 1, "a": [1.5, None, "ü"]})
    bench.do(command)
    envelope = stored(bench, "platform", 1)
    added = {"channel_sequence_id": 1, "timestamp_iso8601": "2027-01-15T08:00:00.000000Z", "priority": "critical"}
    assert envelope == command.envelope | added
    assert list(envelope["payload"]) == ["b", "a"]


def test_a_sender_cannot_raise_the_priority_or_choose_its_place(bench):
    """The adapter's word overwrites any that came."""
    bench.do(send(priority="critical", channel_sequence_id=99))
    envelope = stored(bench, "product", 1)
    assert (envelope["priority"], envelope["channel_sequence_id"]) == ("normal", 1)


def test_timestamps_never_go_back(bench):
    """Not with the clock either (temporal#7030)."""
    first = bench.send().accepted_at_us
    bench.seconds -= 3_600
    assert bench.send().accepted_at_us == first


def test_every_member_has_a_delivery_of_its_own(bench):
    """The sender included; the adapter has read its copy by storing it."""
    sent = bench.send(to="platform")
    assert bench.states(1) == {"orchestrator": "queued", "pm": "queued", "engineering": "queued", "adapter": "acked"}
    assert [r.agent for r in sent.recipients] == ["orchestrator", "pm", "engineering", "adapter"]


def test_the_same_send_again_is_the_first_answer_marked_duplicate(bench):
    """Recipients in the order they were told before, each with its present state (promise 2)."""
    command = send(to="platform")
    first = bench.do(command)
    bench.ack(*bench.poll("pm"), recipient="pm")
    again = bench.do(command)
    assert (again.duplicate, again.channel, again.sequence, again.accepted_at_us) == (
        True, first.channel, first.sequence, first.accepted_at_us,
    )  # fmt: skip
    assert [(r.agent, r.status) for r in again.recipients] == [
        ("orchestrator", "queued"), ("pm", "acked"), ("engineering", "queued"), ("adapter", "acked"),
    ]  # fmt: skip
    assert bench.poll("pm") == []


def test_a_duplicate_in_the_same_group_is_one_message(bench):
    """Before anything of it is on disk."""
    command = send()
    first, again, other = bench.group(command, command, send())
    assert (first.duplicate, again.duplicate, other.duplicate) == (False, True, False)
    assert (first.sequence, again.sequence, other.sequence) == (1, 1, 2)
    assert first.recipients == again.recipients


def test_a_duplicate_says_that_its_message_is_dead(bench):
    """A sender learns the end of its message, with the reason."""
    command = send(to="@qa")
    bench.do(command)
    bench.nack(bench.poll()[0], "refuse", "no")
    report = bench.do(command).recipients[0]
    assert (report.status, report.reason) == ("dead", "refused")


@pytest.mark.parametrize("grouped", [True, False])
def test_a_key_used_for_other_content_is_a_conflict(bench, grouped):
    """The stored message stands, and nothing is delivered (nats-server#2921)."""
    key = new_key()
    one, two = send(idempotency_key=key), send(idempotency_key=key, payload={"text": "other"})
    outcomes = bench.group(one, two) if grouped else [bench.do(one), bench.do(two)]
    assert isinstance(outcomes[0], Sent)
    assert outcomes[1].kind == "idempotency-conflict"
    assert len(bench.poll()) == 1


def test_the_scope_of_a_key_is_its_sender(bench):
    """Two agents may think of the same one."""
    key = new_key()
    assert [s.sequence for s in bench.group(send("pm", idempotency_key=key), send("qa", idempotency_key=key))] == [1, 2]


def test_a_key_stays_used_over_a_restart_and_an_ack(bench):
    """Deduplication is as durable as the message."""
    command = send(to="@qa")
    bench.do(command)
    bench.ack(*bench.poll())
    bench.restart()
    assert bench.do(command).duplicate
    assert bench.poll() == []


def test_a_message_that_has_expired_is_not_taken(bench):
    """But a duplicate of one that was in time is."""
    late = bench.refused(send(expires_at_us=int((1_800_000_000 - 1) * 1e6)))
    assert (late.kind, late.field) == ("expired", "/expires_at")
    command = send(expires_at_us=int((1_800_000_000 + 10) * 1e6))
    bench.do(command)
    bench.seconds = 20
    assert bench.do(command).duplicate


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"deadline": "2027-01-15T07:59:59Z"}, "/deadline"),
        ({"expires_at": "2027-01-15T07:59:59Z"}, "/expires_at"),
        ({"deadline": "2027-01-15T08:00:59+00:01", "expires_at": "2027-01-15T07:59:58Z"}, "/expires_at"),
        ({"deadline": "2027-01-15T08:59:57+01:00", "expires_at": "2027-01-15T07:59:58Z"}, "/deadline"),
    ],
)
def test_a_refusal_names_what_ended_the_message(bench, fields, named):
    """The earlier of `deadline` and `expires_at`, by time and not by text."""
    ends = ends_at_us(fields.get("deadline"), fields.get("expires_at"))
    problem = bench.refused(send(expires_at_us=ends, **fields))
    assert (problem.kind, problem.field) == ("expired", named)


def test_a_message_that_expires_while_it_waits_is_dead(bench):
    """It is not handed out (promise 6)."""
    bench.send(to="@qa", expires_at_us=int((1_800_000_000 + 10) * 1e6))
    bench.seconds = 10
    assert bench.poll() == []
    assert (bench.row(1).state.word, bench.row(1).reason) == ("dead", "expired")


def test_a_step_of_the_wall_clock_does_not_expire_what_waits(bench):
    """Expiry is told in wall time and kept in steady time: with the wall an hour back, ten seconds are ten."""
    wall, steady = now(-3600).wall_us, now().steady_us
    ten = 10_000_000
    ask(
        bench.exchange,
        bench.engine,
        Now(wall, steady),
        *(send(to="@qa", task_id=str(n), expires_at_us=wall + ten) for n in range(2)),
    )
    (in_time,) = ask(bench.exchange, bench.engine, Now(wall, steady + ten - 1), claim("qa", 1))
    (too_late,) = ask(bench.exchange, bench.engine, Now(wall, steady + ten), claim("qa", 1))
    assert (len(in_time), len(too_late)) == (1, 0)


def test_a_full_queue_evicts_its_oldest_normal_message(make_bench):
    """With its reason, and for that recipient only (rabbitmq-server#2313)."""
    bench = make_bench(policy(queue_max=2))
    bench.group(send(to="@qa", critical=True), send(to="product"), send(to="@qa"))
    assert (bench.row(2).state.word, bench.row(2).reason) == ("dead", "overflow")
    assert bench.states(2)["pm"] == "queued"
    assert bench.exchange.depths()["qa"] == 2


def test_what_is_in_its_receivers_hands_is_never_evicted(make_bench):
    """A normal newcomer to a queue of leased messages is dead on arrival, and its sender is told."""
    bench = make_bench(policy(queue_max=2))
    bench.group(send(to="@qa"), send(to="@qa"))
    handed = bench.poll()
    report = bench.send(to="@qa").recipients[0]
    assert (report.status, report.reason, report.unread) == ("dead", "overflow", 2)
    assert len(bench.ack(*handed)) == 2


def test_critical_messages_use_the_reserve_and_then_the_sender_waits(make_bench):
    """All or nothing: no recipient of a refused send has it (promise 7)."""
    bench = make_bench(policy(queue_max=1, critical_reserve=1))
    bench.group(send(to="@qa", critical=True), send(to="@qa", critical=True))
    full = bench.refused(send(to="product", critical=True))
    assert (full.kind, full.field, full.retryable) == ("queue-full", "/to", True)
    assert full.retry_after is not None
    assert bench.poll("pm") == []
    assert bench.send(to="product").sequence == 1


def test_a_critical_message_evicts_before_it_uses_the_reserve(make_bench):
    """A queue over its bound that holds normal messages still makes room at their cost."""
    bench = make_bench(policy(queue_max=2, critical_reserve=1))
    bench.group(send(to="@qa"), send(to="@qa"))
    handed = bench.poll()
    bench.send(to="@qa", critical=True)
    for item in handed:
        bench.nack(item, "release")
    assert bench.send(to="@qa", critical=True).recipients[0].status == "queued"
    assert bench.send(to="@qa", critical=True).recipients[0].status == "queued"
    assert [bench.row(n).state.word for n in (1, 2)] == ["dead", "dead"]


def test_a_sender_learns_what_its_recipients_have_before_them(bench):
    """Unread counts what is queued and leased; last seen is the last poll."""
    bench.seconds = 7
    bench.poll("qa")
    bench.seconds = 9
    report = {r.agent: r for r in bench.send().recipients}
    assert (report["qa"].unread, report["qa"].last_seen_us) == (1, int((1_800_000_000 + 7) * 1e6))
    assert report["pm"].last_seen_us is None
    assert set(report) == set(AGENTS)


def test_a_parked_poll_is_served_by_the_group_that_sends(bench):
    """In the same transaction: the sender is told `leased`."""
    assert bench.do(claim("qa", park=True, ticket=7)) is None
    sent = bench.send(to="@qa")
    assert sent.recipients[0].status == "leased"
    (ticket, recipient, handed), = bench.exchange.handed_over  # fmt: skip
    assert (ticket, recipient, len(handed)) == (7, "qa", 1)


def test_a_batch_stops_at_the_first_that_must_be_tried_again(make_bench):
    """What comes later would overtake it; a refusal for good holds nobody back."""
    bench = make_bench(policy(queue_max=1, critical_reserve=0))
    bench.send(to="@qa", critical=True)
    key = new_key()
    bench.send(to="@pm", idempotency_key=key)
    conflict, full, after, last = bench.do(
        SendBatch((
            send(to="@pm", idempotency_key=key, payload=1),
            send(to="@qa", critical=True),
            send(to="@growth"),
            send(to="@growth"),
        ))
    )  # fmt: skip
    assert [p.kind for p in (conflict, full, after, last)] == [
        "idempotency-conflict", "queue-full", "held-back", "held-back",
    ]  # fmt: skip
    assert after.retryable
    assert bench.poll("growth") == []
