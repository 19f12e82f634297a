"""One recipient's queue: order within a line, what a failure takes with it, and when something is due."""

import pytest

from adapter.core.delivery import Event, State
from adapter.core.mailbox import Mailbox
from tests.support.factories import delivery

LEASE = 30


def mailbox(*deliveries):
    box = Mailbox("qa")
    for item in deliveries:
        box.add(item)
    return box


def claim(box, count=10, now=0):
    handed, _ = box.claim(count, now, now + LEASE, lambda d: f"{d.message_id}.{d.handovers}")
    return [d.message_id for d in handed]


def line(*numbers, key=1, **fields):
    return [delivery(number, order_key=key, **fields) for number in numbers]


def lapse(box, now):
    failed = []
    for item in box.lapsed(now):
        failed.append(item.message_id)
        box.fail(item, now, silent=True)
    return failed


def test_a_batch_is_in_commit_order_across_lines():
    """Lines do not matter to the order of one batch."""
    box = mailbox(*line(1, 3), *line(2, 4, key=2))
    assert claim(box) == [1, 2, 3, 4]


def test_a_batch_takes_as_many_as_asked():
    """The rest stays where it is."""
    box = mailbox(*line(1), *line(2, key=2), *line(3, key=3))
    assert claim(box, 2) == [1, 2]
    assert claim(box, 2) == [3]


def test_the_next_of_a_line_waits_for_the_batch_before_it():
    """Nothing overtakes what is still in the receiver's hands (promise 3)."""
    box = mailbox(*line(1, 2, 3))
    assert claim(box, 2) == [1, 2]
    assert claim(box) == []
    box.ack(box.live[1])
    assert claim(box) == []
    box.ack(box.live[2])
    assert claim(box) == [3]


def test_other_lines_flow_past_one_that_waits():
    """A failure holds up its own line only."""
    first, second, other = *line(1, 2), *line(3, key=2)
    box = mailbox(first, second, other)
    assert claim(box, 1) == [1]
    box.fail(first, 100, silent=False)
    assert claim(box, now=50) == [3]
    assert claim(box, now=100) == [1, 2]


def test_a_failure_releases_the_later_ones_of_its_line_free():
    """They were not at fault."""
    items = [*line(1, 2, 3), *line(4, key=2)]
    box = mailbox(*items)
    claim(box)
    changed = box.fail(items[0], 5, silent=False)
    assert [d.message_id for d in changed] == [1, 2, 3]
    assert [d.failures for d in items] == [1, 0, 0, 0]
    assert [d.state for d in items] == [State.QUEUED] * 3 + [State.LEASED]


def test_a_last_failure_is_dead_and_lets_its_line_go_on():
    """A dead letter blocks nobody."""
    items = line(1, 2)
    box = mailbox(*items)
    claim(box)
    box.fail(items[0], None, silent=False)
    assert (items[0].state, items[0].reason) == (State.DEAD, "max-attempts")
    assert claim(box) == [2]


@pytest.mark.parametrize("number", [2, 3])
def test_a_release_from_the_middle_keeps_the_earlier_ones(number):
    """What stands before it is still in the receiver's hands."""
    items = line(1, 2, 3)
    box = mailbox(*items)
    claim(box)
    box.release(items[number - 1])
    assert [d.state for d in items[: number - 1]] == [State.LEASED] * (number - 1)
    assert claim(box) == []
    for item in items[: number - 1]:
        box.ack(item)
    assert claim(box) == list(range(number, 4))


def test_a_lapsed_batch_fails_the_heads_and_frees_their_followers():
    """One failure for each line, for the message the receiver may have crashed over."""
    items = [*line(1, 2), *line(3, 4, key=2)]
    box = mailbox(*items)
    claim(box)
    assert lapse(box, LEASE) == [1, 3]
    assert [(d.failures, d.solo) for d in items] == [(1, True), (0, False), (1, True), (0, False)]


def test_after_silence_a_message_goes_out_alone():
    """A poison message does not burn its neighbours' budget (promise 5, dapr#5511)."""
    box = mailbox(*line(1, 2), *line(3, key=2), *line(4, key=3))
    assert claim(box, 2) == [1, 2]
    lapse(box, LEASE)
    assert claim(box, now=LEASE) == [1]
    box.fail(box.live[1], LEASE, silent=False)
    assert claim(box, now=LEASE) == [1, 2, 3, 4]


def test_what_goes_alone_ends_the_batch_before_it():
    """It does not join the tail of another batch either."""
    first, solo, last = delivery(1, order_key=1), delivery(2, order_key=2, solo=True), delivery(3, order_key=3)
    box = mailbox(first, solo, last)
    assert claim(box) == [1]
    assert claim(box) == [2]
    assert claim(box) == [3]


def test_an_extended_lease_lapses_at_its_new_end():
    """Later, or sooner."""
    items = [*line(1), *line(2, key=2)]
    box = mailbox(*items)
    claim(box)
    box.extend(items[0], 100)
    box.extend(items[1], 10)
    assert lapse(box, 10) == [2]
    assert lapse(box, 99) == []
    assert lapse(box, 100) == [1]


def test_an_expired_message_is_not_handed_out():
    """It is dead, and its line goes on in the same batch."""
    items = [*line(1, expires_at_us=5), *line(2), *line(3, expires_at_us=6)]
    box = mailbox(*items)
    handed, expired = box.claim(10, 5, 35, lambda _: "t")
    assert [d.message_id for d in handed] == [2, 3]
    assert [(d.message_id, d.reason) for d in expired] == [(1, "expired")]


@pytest.mark.parametrize(("state", "critical", "found"), [
    (State.QUEUED, False, 1), (State.QUEUED, True, 2), (State.LEASED, False, 2),
])  # fmt: skip
def test_the_oldest_evictable_is_queued_and_normal(state, critical, found):
    """Never one in its receiver's hands, never a critical one."""
    box = mailbox(delivery(1, state=state, critical=critical), delivery(2, order_key=2))
    assert box.oldest_evictable().message_id == found


def test_an_eviction_closes_the_line_behind_it():
    """Whoever stood behind the evicted one stands behind the one before it."""
    items = line(1, 2, 3)
    box = mailbox(*items)
    claim(box, 1)
    box.evict(items[1])
    assert claim(box) == []
    box.ack(items[0])
    assert claim(box) == [3]


def test_nothing_is_due_in_an_idle_mailbox():
    """No lease, no backoff: no tick."""
    box = mailbox(*line(1))
    assert box.next_due_us() is None
    claim(box)
    assert box.next_due_us() == LEASE


def test_what_nobody_polls_for_is_due_once():
    """A backoff that ended leaves no deadline in the past, which would tick without end."""
    items = line(1)
    box = mailbox(*items)
    claim(box)
    box.fail(items[0], 50, silent=False)
    assert lapse(box, 50) == []
    assert box.next_due_us() == 50
    box.wake(50)
    assert box.next_due_us() is None
    assert claim(box, now=50) == [1]


def test_a_reloaded_mailbox_goes_on_where_it_was():
    """Leases persist, with their order and their ends."""
    items = [delivery(1, state=State.LEASED, token="1.1", lease_until_us=9), *line(2), *line(3, key=2)]  # noqa: S106
    box = mailbox(*items)
    assert claim(box) == [3]
    assert lapse(box, 9) == [1]
    assert claim(box, now=9) == [1]


def test_the_heaps_stay_in_proportion_to_what_lives():
    """Ten thousand releases of three messages leave no ten thousand entries."""
    items = [*line(1), *line(2, key=2), *line(3, key=3)]
    box = mailbox(*items)
    for _ in range(10_000):
        claim(box)
        for item in items:
            box.release(item)
    assert len(box._ready) < 200


def test_an_illegal_act_leaves_the_mailbox_as_it_was():
    """A queued delivery cannot be acked."""
    items = line(1)
    box = mailbox(*items)
    with pytest.raises(ValueError, match=f"cannot {Event.ACK}"):
        box.ack(items[0])
    assert claim(box) == [1]


def test_what_is_due_is_kept_for_the_living_only():
    """A receiver that extends or takes and acks as fast as it can does not make the heap of leases grow."""
    box = mailbox(*line(1), *line(2, key=2))
    claim(box)
    for end in range(1_000, 11_000):
        box.extend(box.live[1], end)
        box.ack(box.live[2 + end - 1_000])
        box.add(delivery(3 + end - 1_000, order_key=2))
        claim(box)
    assert len(box._leases) < 200
    assert box.next_due_us() == LEASE
    assert lapse(box, 10_998)[0] == 10_002
    assert lapse(box, 10_999) == [1]
