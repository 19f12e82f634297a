"""The wall clock is set, and nothing that is under way notices (temporal#7030, quartznet#3148).

Leases, backoff, long-polls, deduplication and expiry are all live while it steps: the same script is played with a step
at each of its moments, and must go as it goes without one. Only stamps show the wall, and they never go back.
"""

import pytest

from adapter.core.commands import Extend, Unpark
from tests.support.clock import START_SECONDS, us
from tests.support.factories import claim, new_key, send

STEPS = {"an hour back": -3_600, "an hour on": 3_600, "forty days on": 40 * 86_400, "to 1970": 60 - START_SECONDS}


class Script:
    """Acts in order, and what each brought about. `stamps` are those of the sends of one channel."""

    def __init__(self, bench):
        self.bench = bench
        self.key = new_key()
        self.stamps = []
        self.held = {}

    def acts(self):
        """Each is one moment; before any of them the wall may be set."""
        return [
            lambda: [self.send(task_id="a", idempotency_key=self.key), self.send(task_id="b")],
            lambda: self.take(1),
            lambda: self.bench.nack(self.held[1]).status,
            lambda: self.take(1),
            lambda: self.bench.do(claim("qa", park=True, ticket=7)),
            lambda: self.wait(0.9),
            lambda: self.wait(0.1),
            lambda: self.send(task_id="a", idempotency_key=self.key),
            lambda: self.extend(1, 60),
            lambda: self.wait(28.9),
            lambda: self.wait(0.1),
            lambda: self.wait(1),
            lambda: self.take(10),
            lambda: self.bench.ack(*self.held.values()) and None,
            lambda: self.send(task_id="a", idempotency_key=self.key),
            lambda: self.send(task_id="c", expires_at_us=self.bench.now.wall_us + us(10)),
            lambda: self.wait(9.9),
            lambda: self.wait(0.1),
            lambda: self.bench.do(Unpark("qa", 7)),
        ]

    def send(self, **fields):
        """A message to qa; whether it is new, and its place."""
        sent = self.bench.send(to="@qa", payload=fields.get("task_id"), **fields)
        if not sent.duplicate:
            self.stamps.append(sent.accepted_at_us)
        return sent.duplicate, sent.sequence, [report.status for report in sent.recipients]

    def take(self, count):
        """A poll; what it got."""
        return self.got(self.bench.poll(count=count))

    def extend(self, number, seconds):
        """More time for one that is held; how much."""
        command = Extend("qa", (self.held[number].delivery_id,), us(seconds))
        return self.bench.do(command).lease_until_us - self.bench.now.steady_us

    def wait(self, seconds):
        """Time passes; what the poll that waits got."""
        self.bench.wait(seconds)
        return [(ticket, self.got(handed)) for ticket, _, handed in self.bench.exchange.handed_over]

    def got(self, handed):
        """Messages by number, with their attempts and how long they are leased."""
        for one in handed:
            self.held[int(one.delivery_id.split(".")[0], 16)] = one
        return [(o.delivery_id.split(".")[0], o.attempt, o.lease_until_us - self.bench.now.steady_us) for o in handed]

    def play(self, step_at=None, step_seconds=0.0):
        """What came of each act, and what then was due."""
        told = []
        for moment, act in enumerate(self.acts()):
            if moment == step_at:
                self.bench.wall_step_seconds = step_seconds
            outcome = act()
            due = self.bench.exchange.next_due_us()
            states = [self.bench.states(number) for number in range(1, len(self.stamps) + 1)]
            told.append((outcome, states, due and due - self.bench.now.steady_us))
        return told


@pytest.mark.parametrize("seconds", STEPS.values(), ids=STEPS)
def test_a_step_at_any_moment_changes_nothing_under_way(make_bench, seconds):
    """Hand-overs, attempts, states and deadlines are those of a clock that was left alone."""
    undisturbed = Script(make_bench()).play()
    for moment in range(len(undisturbed)):
        script = Script(make_bench())
        assert script.play(moment, seconds) == undisturbed, f"a step before act {moment}"
        assert script.stamps == sorted(script.stamps)


def test_the_script_has_everything_in_it(bench):
    """A lease that lapses, a backoff, a poll that waits and is served, a duplicate, and a death by expiry."""
    script = Script(bench)
    told = script.play()
    assert [outcome for outcome, _, _ in told[5:7]] == [[], [(7, [("1", 2, us(30))])]]
    assert told[7][0] == (True, 1, ["leased"])
    assert [states[1]["qa"] for _, states, _ in told[9:11]] == ["leased", "queued"]
    assert told[12][0] == [("2", 2, us(30))]
    assert told[14][0] == (True, 1, ["acked"])
    assert [states[2]["qa"] for _, states, _ in told[16:18]] == ["queued", "dead"]


@pytest.mark.parametrize("seconds", STEPS.values(), ids=STEPS)
def test_stamps_of_a_channel_never_go_back(bench, seconds):
    """Not after any step, and not after the step back, nor over a restart between; order is by sequence."""
    sent = []
    for step in (0, seconds, 0, -seconds, 0):
        bench.wall_step_seconds = step
        sent += [bench.send(), bench.send()]
        bench.restart()
    stamps = [one.accepted_at_us for one in sent]
    assert stamps == sorted(stamps)
    assert [one.sequence for one in sent] == list(range(1, 11))


@pytest.mark.parametrize("seconds", STEPS.values(), ids=STEPS)
def test_a_restart_after_a_step_ends_every_wait_in_bounded_time(bench, seconds):
    """The next process reads deadlines off another clock: none is further away than it could ever be, a lease of an
    hour at most; nothing is lost, and an attempt that ran on costs one failure at most."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    (held,) = bench.poll(count=1)
    bench.nack(bench.poll(count=1)[0])
    bench.seconds += seconds
    bench.restart()
    bench.wait(0)
    bench.wait(60)
    bench.wait(3_600)
    bench.wait(60)
    assert {bench.row(number).state.word for number in (1, 2)} == {"queued"}
    assert (bench.row(1).failures, bench.row(2).failures) == (1, 1)
    assert bench.ack(held).kind == "stale-lease"
    assert [one.attempt for one in (*bench.poll(), *bench.poll())] == [2, 2]
