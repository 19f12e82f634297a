"""Queues at their real bounds: 500, and 100 more for critical messages (promise 7).

What is leased counts as what waits does, and one bound holds for both priorities together (rabbitmq-server#2313,
emqx#13409): nothing that is in a receiver's hands is dropped, and a sender always learns what became of its message.
"""

from collections import Counter

import pytest

from adapter.core.commands import Tick
from tests.support.factories import policy, send

QUEUE_MAX, RESERVE = 500, 100


@pytest.fixture
def full(make_bench):
    """A bench whose queue of qa holds so many normal and critical messages, normal ones first."""

    def make(normal=0, critical=0):
        bench = make_bench(policy(queue_max=QUEUE_MAX, critical_reserve=RESERVE))
        bench.group(*(send(to="@qa", task_id=f"n{n}") for n in range(normal)))
        bench.group(*(send(to="@qa", task_id=f"c{n}", critical=True) for n in range(critical)))
        return bench

    return make


def depth(bench):
    return bench.exchange.depths()["qa"]


def ends(bench, count):
    """How many of the first so many messages are in which state, for which reason."""
    rows = [bench.row(number) for number in range(1, count + 1)]
    return Counter((row.state.word, row.reason) for row in rows)


def test_leased_messages_count_and_stay(full):
    """500 in the receiver's hands: a normal newcomer is dead on arrival and its sender told; when all leases lapse, all
    500 wait again, and one more than 500 never do."""
    bench = full(normal=QUEUE_MAX)
    held = bench.poll(count=QUEUE_MAX)
    assert len(held) == QUEUE_MAX
    report = bench.send(to="@qa").recipients[0]
    assert (report.status, report.reason, report.unread) == ("dead", "overflow", QUEUE_MAX)
    bench.wait(30)
    assert depth(bench) == QUEUE_MAX
    assert ends(bench, QUEUE_MAX + 1) == {("queued", None): QUEUE_MAX, ("dead", "overflow"): 1}
    bench.send(to="@qa")
    assert depth(bench) == QUEUE_MAX
    assert (bench.row(1).state.word, bench.row(1).reason) == ("dead", "overflow")


def test_a_critical_newcomer_takes_nothing_from_its_receivers_hands(full):
    """It stands above the bound for a while; leases that end evict nobody by themselves."""
    bench = full(normal=QUEUE_MAX)
    held = bench.poll(count=QUEUE_MAX)
    assert bench.send(to="@qa", critical=True).recipients[0].status == "queued"
    assert depth(bench) == QUEUE_MAX + 1
    assert len(bench.ack(*held[:250])) == 250
    bench.wait(30)
    assert depth(bench) == 251
    assert ends(bench, QUEUE_MAX + 1) == {("acked", None): 250, ("queued", None): 251}


def test_the_bound_holds_for_both_priorities_together(full):
    """499 normal and one critical are 500: each newcomer, of either kind, costs the oldest normal one that waits."""
    bench = full(normal=QUEUE_MAX - 1, critical=1)
    bench.send(to="@qa")
    bench.send(to="@qa", critical=True)
    assert depth(bench) == QUEUE_MAX
    assert [bench.row(number).reason for number in (1, 2, 3)] == ["overflow", "overflow", None]
    assert bench.row(QUEUE_MAX).state.word == "queued"
    assert bench.letter(1).last.reason == "overflow"


def test_what_waits_is_evicted_before_what_is_held(full):
    """The oldest is in its receiver's hands: the oldest that waits makes room."""
    bench = full(normal=QUEUE_MAX)
    bench.poll(count=3)
    bench.send(to="@qa")
    assert [bench.row(number).state.word for number in (1, 2, 3, 4)] == ["leased"] * 3 + ["dead"]


def test_critical_messages_are_never_dropped(full):
    """500 of them: 100 more are let in, the next is refused with a time to wait, a normal one is dead for qa,
    and all 600 are there."""
    bench = full(critical=QUEUE_MAX)
    bench.group(*(send(to="@qa", critical=True) for _ in range(RESERVE)))
    assert depth(bench) == QUEUE_MAX + RESERVE
    refused = bench.refused(send(to="@qa", critical=True))
    assert (refused.kind, refused.status, refused.retryable) == ("queue-full", 429, True)
    assert refused.retry_after
    report = bench.send(to="@qa").recipients[0]
    assert (report.status, report.reason) == ("dead", "overflow")
    assert ends(bench, QUEUE_MAX + RESERVE) == {("queued", None): QUEUE_MAX + RESERVE}
    bench.ack(*bench.poll(count=RESERVE))
    assert bench.send(to="@qa", critical=True).recipients[0].status == "queued"


def test_a_refused_send_leaves_no_trace(full):
    """No sequence is used, no key remembered: the same message is taken once there is room."""
    bench = full(critical=QUEUE_MAX + RESERVE)
    command = send(to="@qa", critical=True)
    before = bench.send(to="product", recipients=("pm",)).sequence, bench.row(QUEUE_MAX + RESERVE + 2)
    assert bench.refused(command).kind == "queue-full"
    bench.ack(*bench.poll(count=RESERVE))
    sent = bench.do(command)
    assert (sent.duplicate, sent.sequence) == (False, QUEUE_MAX + RESERVE + 1)
    assert before == (1, None)


def test_one_full_recipient_of_six_is_reported_and_the_others_get_it(full):
    """A broadcast reaches five; for the sixth it is dead, with the reason, and the sender reads so in its answer."""
    bench = full(critical=QUEUE_MAX)
    told = {report.agent: (report.status, report.reason) for report in bench.send(to="product").recipients}
    assert told.pop("qa") == ("dead", "overflow")
    assert told == dict.fromkeys(("orchestrator", "pm", "engineering", "research", "growth"), ("queued", None))


def test_a_critical_broadcast_is_for_everybody_or_nobody(full):
    """One recipient has no room, not even in reserve: the sender is refused, and no other recipient has it."""
    bench = full(critical=QUEUE_MAX + RESERVE)
    assert bench.refused(send(to="product", critical=True)).kind == "queue-full"
    assert {agent: count for agent, count in bench.exchange.depths().items() if count} == {"qa": QUEUE_MAX + RESERVE}


def test_a_full_queue_of_what_comes_back_stays_within_its_bound(full):
    """Given back, failed and lapsed at once, beside newcomers of the same group: never more than 500 normal ones."""
    bench = full(normal=QUEUE_MAX)
    held = bench.poll(count=QUEUE_MAX)
    for one in held[:100]:
        bench.nack(one, "release")
    for one in held[100:200]:
        bench.nack(one, "fail")
    bench.seconds += 30
    bench.group(*(send(to="@qa") for _ in range(10)), Tick(), *(send(to="@qa") for _ in range(10)))
    assert depth(bench) == QUEUE_MAX
    assert ends(bench, QUEUE_MAX + 20) == {("queued", None): QUEUE_MAX, ("dead", "overflow"): 20}
