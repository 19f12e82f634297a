"""What comes again, when, in which order and how often: receivers that crash, are slow, or lose a batch."""

import itertools

import pytest

from tests.support.factories import policy, send, topology

LEASE = 30.0


class Line:
    """A receiver that notes what it gets, and checks the order rule at each hand-over (promise 3)."""

    def __init__(self, bench, keys):
        self.bench = bench
        self.keys = keys
        self.held = {}
        self.settled = set()

    def take(self, count=10):
        """Numbers of the messages of one poll: every earlier one of the same line is settled or in the same batch."""
        batch = []
        for one in self.bench.poll(count=count):
            number = int(one.delivery_id.split(".")[0], 16)
            earlier = {n for n in self.keys if n < number and self.keys[n] == self.keys[number]}
            assert earlier <= self.settled | set(batch), f"{number} overtook {earlier - self.settled - set(batch)}"
            self.held[number] = one
            batch.append(number)
        assert batch == sorted(batch)
        return batch

    def ack(self, *numbers):
        """They are processed."""
        self.bench.ack(*(self.held[number] for number in numbers))
        self.settled |= set(numbers)

    def fail(self, number):
        """It is not."""
        self.bench.nack(self.held[number])


def test_nothing_comes_again_while_its_holder_may_be_alive(bench):
    """The message of a silent receiver stays with it to the last moment of its lease, and is free at the next, with its
    count (nats-server#4627, #4716)."""
    sent = bench.send(to="@qa")
    (first,) = bench.poll()
    bench.wait(LEASE - 0.001)
    assert bench.row(1).state.word == "leased"
    bench.wait(0.001)
    assert bench.row(1).state.word == "queued"
    bench.wait(1)
    (second,) = bench.poll()
    assert (second.attempt, second.envelope) == (2, first.envelope)
    assert bench.row(1).failures == 1
    assert sent.sequence == 1


def test_a_backoff_longer_than_its_lease_makes_no_second_copy(make_bench):
    """Leases of a second, waits of half a minute, five pollers, and a receiver that is always silent: at no instant are
    there two live leases of one message, and it is handed out three times in all (celery#2599, kombu#337)."""
    bench = make_bench(policy(lease_seconds=1, retry_base_seconds=20, retry_cap_seconds=60))
    bench.send(to="@qa")
    ends = []
    for tick in range(4 * 200):
        at = tick / 4
        for _ in range(5):
            for handed in bench.poll():
                assert not ends or ends[-1] <= at, f"two leases at {at} s"
                assert handed.attempt == len(ends) + 1
                ends.append(at + 1)
        bench.wait(0.25)
    assert len(ends) == 3
    assert [later - earlier for earlier, later in itertools.pairwise(ends)] == [21, 41]
    assert (bench.row(1).state.word, bench.row(1).reason) == ("dead", "max-attempts")


@pytest.fixture
def twenty(bench):
    """Twenty messages to qa: 5 starts a task and 6 cancels it, the rest stand in the channel's line."""
    keys = {number: "x" if number in (5, 6) else "channel" for number in range(1, 26)}
    for number in range(1, 21):
        bench.send(to="@qa", task_id="x" if number in (5, 6) else None, payload=number)
    return Line(bench, keys)


def test_a_lost_batch_comes_again_in_order_and_before_what_is_new(bench, twenty):
    """Ten are lost with their receiver, five come meanwhile: all 25 are then handed out, each line ascending, and no
    cancel before its start (nats-server#6114, #7106)."""
    assert twenty.take(10) == list(range(1, 11))
    bench.wait(LEASE)
    for number in range(21, 26):
        bench.send(to="@qa", payload=number)
    bench.wait(1)
    seen = []
    while batch := twenty.take(10):
        seen += batch
        twenty.ack(*batch)
    assert sorted(seen) == list(range(1, 26))
    assert [number for number in seen if number not in (5, 6)] == [n for n in range(1, 26) if n not in (5, 6)]
    assert seen.index(5) < seen.index(6)
    assert {bench.row(number).failures for number in range(1, 26)} == {0, 1}


def test_a_message_in_backoff_holds_up_its_own_line_and_no_other(bench, twenty):
    """The first fails and waits: what stands behind it waits with it, the task's line flows past (the rule of head of
    line), and afterwards the line goes on where it was."""
    assert twenty.take(1) == [1]
    twenty.fail(1)
    assert twenty.take(10) == [5, 6]
    twenty.ack(5, 6)
    assert twenty.take(10) == []
    bench.wait(1)
    assert twenty.take(3) == [1, 2, 3]
    twenty.fail(2)
    twenty.ack(1)
    assert twenty.take(10) == []
    bench.wait(1)
    assert twenty.take(100) == [2, 3, 4, *range(7, 21)]


def test_four_crashes_over_the_first_of_ten_cost_the_others_one_attempt_each(bench):
    """A receiver dies over whatever batch begins with the first: ten are lost once, then it goes alone, and is dead
    after exactly three attempts; the fourth crash meets the second, and no neighbour dies (dapr#5511)."""
    bench.group(*(send(to="@qa", task_id=f"t{number}") for number in range(1, 11)))
    line = Line(bench, {number: f"t{number}" for number in range(1, 11)})
    sizes = []
    for _ in range(4):
        sizes.append(len(line.take(10)))
        bench.wait(LEASE)
        bench.wait(4)
    assert sizes == [10, 1, 1, 1]
    assert (bench.row(1).state.word, bench.row(1).reason, bench.row(1).failures) == ("dead", "max-attempts", 3)
    assert [bench.row(number).failures for number in range(2, 11)] == [2] + [1] * 8
    while batch := line.take(10):
        line.ack(*batch)
    assert [bench.row(number).state.word for number in range(1, 11)] == ["dead"] + ["acked"] * 9


def test_ten_of_one_line_lose_nothing_but_the_first(bench):
    """Behind the one that its receiver died over, nobody is at fault: their attempts are free."""
    bench.group(*(send(to="@qa") for _ in range(10)))
    line = Line(bench, dict.fromkeys(range(1, 11), "channel"))
    sizes = []
    for _ in range(3):
        sizes.append(len(line.take(10)))
        bench.wait(LEASE)
        bench.wait(4)
    assert sizes == [10, 1, 1]
    assert bench.row(1).state.word == "dead"
    line.settled.add(1)
    assert line.take(10) == list(range(2, 11))
    assert {bench.row(number).failures for number in range(2, 11)} == {0}


def test_a_refusal_spends_no_attempt(bench):
    """What can never be processed is dead at its first hand-over, with a count of one."""
    bench.send(to="@qa")
    assert bench.nack(bench.poll()[0], "refuse", "not a number").status == "dead"
    assert (bench.row(1).handovers, bench.row(1).failures) == (1, 0)
    assert bench.letter(1).last.detail == "not a number"


def test_the_last_failure_buries_once_tells_once_and_touches_no_sibling(make_bench):
    """Three failures of one recipient of a broadcast: one record, one alert, nothing more to pull, and the others have
    theirs (nats-server#4956)."""
    bench = make_bench(policy(alert_window_seconds=10), topology(platform=("orchestrator", "pm", "adapter")))
    bench.send(to="product")
    for _ in range(3):
        (handed,) = bench.poll()
        status = bench.nack(handed, "fail", "no").status
        bench.wait(4)
    assert (status, bench.letter(1).cycles, bench.letter(1).closure) == ("dead", 1, None)
    bench.wait(100)
    assert bench.poll() == []
    assert bench.row(1, "pm").state.word == "queued"
    alerts = [one for one in bench.poll("orchestrator", 100) if b"alert.dead-letter" in one.envelope]
    assert len(alerts) == 1
    bench.wait(1_000)
    assert bench.poll("orchestrator", 100) == []
