"""Token buckets: exact, without drift, and not to be outwitted by a clock."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.commands import SendBatch, Sent
from adapter.core.rates import Allowances, Bucket, Rate
from shared.problems import Problem
from shared.strict_json import decode_object
from tests.support.factories import UNLIMITED, policy, send

SECOND = 1_000_000
rates = st.builds(Rate, st.integers(1, 5_000), st.integers(1, 50))
gaps = st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=200)


def times_of(gaps: list[int]) -> list[int]:
    """When each message comes."""
    at, times = 0, []
    for gap in gaps:
        at += gap
        times.append(at)
    return times


@given(rates, gaps)
def test_no_window_lets_more_through_than_burst_and_rate(rate, gaps):
    """Whatever the pattern of arrival, in any window: burst + rate x time at most (property)."""
    bucket = Bucket(rate, 0)
    taken = [at for at in times_of(gaps) if bucket.take(at)]
    for first, start in enumerate(taken):
        for count, end in enumerate(taken[first:], 1):
            assert count * SECOND <= rate.burst * SECOND + rate.per_second * (end - start)


@given(rates, gaps)
def test_what_comes_as_told_is_taken_and_not_before(rate, gaps):
    """The wait is exact to the microsecond: there is a token then, and there was none a microsecond before."""
    bucket = Bucket(rate, 0)
    for at in times_of(gaps):
        if bucket.take(at):
            continue
        wait_us = bucket.wait_us()
        assert wait_us > 0
        assert wait_us == 1 or not bucket.take(at + wait_us - 1)
        assert bucket.take(at + wait_us)
        return


@given(rates, gaps)
def test_nothing_is_lost_or_made(rate, gaps):
    """Tokens taken and tokens left are those it began with and those that time brought, less what ran over."""
    bucket = Bucket(rate, 0)
    level, last = rate.burst * SECOND, 0
    for at in times_of(gaps):
        level, last = min(level + (at - last) * rate.per_second, rate.burst * SECOND), at
        assert bucket.take(at) == (level >= SECOND)
        level -= SECOND if level >= SECOND else 0
        assert bucket.wait_us() == max(0, -((level - SECOND) // rate.per_second))


def test_a_year_of_microsteps_does_not_drift():
    """At a third of a token a step, each third step brings one, however long it goes on."""
    bucket = Bucket(Rate(1, 1), 0)
    assert bucket.take(0)
    step = SECOND // 3 + 1
    taken = [bucket.take(10**15 + number * step) for number in range(300)]
    assert sum(taken) == 100


def test_a_clock_that_goes_back_brings_nothing_and_freezes_nobody():
    """No tokens for the way back, and the next ones come a second later by the clock as it is now."""
    bucket = Bucket(Rate(1, 1), 3_600 * SECOND)
    assert bucket.take(3_600 * SECOND)
    assert not bucket.take(0)
    assert bucket.wait_us() == SECOND
    assert bucket.take(SECOND)


def test_senders_and_classes_have_buckets_of_their_own():
    """What one uses up is nobody else's, and a sender's chatter costs its cancels nothing."""
    allowances = Allowances({"normal": Rate(1, 1), "critical": Rate(1, 1)})
    for sender, rate_class in (("pm", "normal"), ("pm", "critical"), ("qa", "normal")):
        assert allowances.bucket(sender, rate_class, 0).take(0)
    assert not allowances.bucket("pm", "normal", 0).take(0)


SLOW = UNLIMITED | {"normal": Rate(2, 3)}


@pytest.fixture
def slow(make_bench):
    """Three normal messages at once, two a second after them."""
    return make_bench(policy(rates=SLOW))


def alarms(bench):
    """What the last group reported."""
    return bench.exchange._books.changes.alarms


def test_a_sender_that_is_too_fast_is_told_when_to_come_again(slow):
    """429 with the time of the next token, its class and its rate; nothing is stored, and it is taken then."""
    for _ in range(3):
        slow.send()
    command = send()
    problem = slow.refused(command)
    assert (problem.kind, problem.status, problem.retryable, problem.retry_after) == ("rate-limited", 429, True, 0.5)
    assert problem.extra == {"rate_class": "normal", "per_second": 2}
    slow.seconds = 0.499
    assert isinstance(slow.do(command), Problem)
    slow.seconds = 0.5
    assert slow.do(command).sequence == 4


def test_a_duplicate_costs_nothing(slow):
    """A retry is not a new message, with tokens or without."""
    command = send()
    slow.do(command)
    assert [slow.do(command).duplicate for _ in range(9)] == [True] * 9
    slow.group(send(), send())
    assert slow.do(command).duplicate
    assert isinstance(slow.do(send()), Problem)


def test_a_refused_send_costs_nothing(slow):
    """Whatever else is wrong with it is told first, and takes no token."""
    for _ in range(9):
        assert slow.refused(send(expires_at_us=1)).kind == "expired"
    assert all(isinstance(outcome, Sent) for outcome in slow.group(send(), send(), send()))


def test_a_batch_is_cut_at_the_first_that_does_not_fit(slow):
    """What follows it is held back, a critical one too: it would overtake (ADR 10)."""
    outcomes = slow.do(SendBatch((*(send() for _ in range(5)), send(critical=True))))
    assert [type(outcome) for outcome in outcomes[:3]] == [Sent] * 3
    assert [outcome.kind for outcome in outcomes[3:]] == ["rate-limited", "held-back", "held-back"]
    assert slow.send(critical=True).sequence == 4


def test_a_sender_that_is_too_fast_is_reported_once_a_minute(slow):
    """At its first refusal, for each sender and class apart; a thousand refusals are not a thousand alarms."""
    slow.group(*(send() for _ in range(3)))
    assert alarms(slow) == []
    slow.group(*(send() for _ in range(500)), send("qa"))
    assert alarms(slow) == [Alarm(AlarmKind.RATE_LIMIT, "pm", "normal")]
    found = []
    for _ in range(100):
        slow.seconds += 1
        slow.group(*(send() for _ in range(5)))
        found += alarms(slow)
    assert found == [Alarm(AlarmKind.RATE_LIMIT, "pm", "normal")]


def test_people_are_told_of_a_sender_that_is_too_fast(make_bench):
    """On `platform`, with who it is and of which class; not once for each refusal."""
    bench = make_bench(policy(rates=SLOW, alert_window_seconds=1.0))
    bench.group(*(send("qa") for _ in range(50)))
    bench.wait(1)
    (alert,) = [decode_object(handed.envelope) for handed in bench.poll("orchestrator", 100)][-1:]
    assert (alert["type"], alert["to"]) == ("alert.rate/1", "platform")
    assert (alert["payload"]["agent"], alert["payload"]["reason"]) == ("qa", "normal")
    bench.group(*(send("qa") for _ in range(50)))
    bench.wait(1)
    assert "alert.rate/1" not in [decode_object(each.envelope)["type"] for each in bench.poll("orchestrator", 100)]


def test_the_adapters_own_messages_have_no_rate(make_bench):
    """Alerts about six agents leave at once, where anybody else might send one a second."""
    bench = make_bench(policy(rates=dict.fromkeys(UNLIMITED, Rate(1, 1)), alert_window_seconds=1.0, queue_max=1))
    bench.group(send("pm", "product"), send("qa", "product"))
    bench.wait(1)
    types = [decode_object(handed.envelope)["type"] for handed in bench.poll("orchestrator")]
    assert types.count("alert.dead-letter/1") == 6
