"""Replay jobs: what matches is tried again once, at the job's rate, in order, and a half of each queue stays free."""

import pytest

from adapter.core.commands import CancelReplay, Nack, Replay, Resolve, StartReplay, Tick
from adapter.core.dead_letters import Filter
from adapter.core.exchange import Exchange
from adapter.core.replaying import BATCH_MAX, ENDED_MAX, RUNNING_MAX
from shared.problems import Problem
from tests.support.factories import AGENTS, START_US, now, policy, topology


def kill(bench, count, to="@qa", agent="qa", **fields):
    """So many messages that their recipient refuses."""
    for _ in range(count):
        bench.send(to=to, **fields)
        (handed,) = bench.poll(agent)
        bench.do(Nack(agent, handed.delivery_id, "refuse", "no"))


def start(bench, name="job", rate=None, limit=None, **wanted):
    """A job of what has died by now."""
    bench.seconds += 1
    job, fresh = bench.do(StartReplay(name, Filter(**wanted), rate, limit))
    assert fresh
    return job


def job_of(bench, name="job"):
    """The job as stored."""
    return {job.id: job for job in bench.engine.snapshot().replays}[name]


def words(bench, name="job"):
    job = job_of(bench, name)
    return str(job.state), job.replayed, job.refused


def run(bench, seconds=1.0):
    """Ticks come every 10 ms, as the broker sends them."""
    for _ in range(round(seconds * 100)):
        bench.wait(0.01)


def finish(bench, agents=AGENTS, name="job"):
    """The receivers take what comes, until the job has ended; what each got, by message number."""
    got = {agent: [] for agent in agents}
    while str(job_of(bench, name).state) == "running":
        bench.wait(0.1)
        for agent in agents:
            handed = bench.poll(agent, count=100)
            got[agent] += [int(each.delivery_id.split(".")[0], 16) for each in handed]
            if handed:
                bench.ack(*handed, recipient=agent)
    return got


def test_everything_that_matches_is_tried_again_in_order(bench):
    """Of every recipient, each in the order of its messages; the job tells how far it is."""
    kill(bench, 30)
    kill(bench, 30, to="@pm", agent="pm")
    job = start(bench)
    assert (job.matched, job.left, job.lanes) == (60, 60, {"qa": 0, "pm": 0})
    bench.wait(0)
    assert words(bench) == ("running", 1, 0)
    bench.wait(1)
    assert words(bench) == ("running", 1 + BATCH_MAX, 0)
    got = finish(bench)
    assert words(bench) == ("done", 60, 0)
    assert (got["qa"], got["pm"]) == (list(range(1, 31)), list(range(31, 61)))
    assert {bench.letter(n).closure for n in range(1, 31)} == {"replayed"}


def test_only_what_was_shown_is_touched(bench):
    """Another recipient's, another reason's, and what died at the cut-off or later are left alone; the future is not
    to be had."""
    kill(bench, 2)
    kill(bench, 1, to="@pm", agent="pm")
    bench.send(to="@qa", expires_at_us=START_US + 500_000)
    start(bench, recipient="qa", reason="refused", before_us=START_US + 10**12)
    kill(bench, 1)
    run(bench)
    assert words(bench) == ("done", 2, 0)
    assert job_of(bench).wanted.before_us == START_US + 1_000_000
    assert [bench.letter(n, who).closure for n, who in ((3, "pm"), (4, "qa"), (5, "qa"))] == [None, None, None]


def test_its_own_failures_are_not_tried_again(bench):
    """What dies a second time waits for somebody's decision, also while the job runs."""
    kill(bench, 30)
    start(bench)
    run(bench, 0.02)
    for handed in bench.poll(count=100):
        bench.nack(handed, "refuse", "still no")
    run(bench)
    assert words(bench) == ("done", 30, 0)
    assert (bench.letter(1).closure, bench.letter(1).cycles) == (None, 2)


def test_a_rate_is_kept(bench):
    """So many a second, whatever the ticks."""
    kill(bench, 100)
    start(bench, rate=20)
    run(bench, 2)
    assert 40 <= job_of(bench).replayed <= 42


def test_a_limit_ends_it(bench):
    """Once so many are touched, in the order of messages, whoever they are for."""
    kill(bench, 1)
    kill(bench, 1, to="@pm", agent="pm")
    kill(bench, 3)
    job = start(bench, limit=3)
    assert job.left == 3
    run(bench)
    assert words(bench) == ("done", 3, 0)
    assert [bench.letter(n, who).closure is None for n, who in ((1, "qa"), (2, "pm"), (3, "qa"), (4, "qa"))] == [
        False, False, False, True,
    ]  # fmt: skip


def test_a_cancel_ends_it_where_it_is(bench):
    """What is replayed stays so, the rest stays dead, and a second cancel changes nothing."""
    kill(bench, 30)
    start(bench)
    bench.wait(0)
    ended = bench.do(CancelReplay("job"))
    assert (str(ended.state), ended.replayed, ended.left) == ("cancelled", 1, 0)
    run(bench)
    assert words(bench) == ("cancelled", 1, 0)
    assert bench.do(CancelReplay("job")) == ended
    assert [bench.letter(n).closure for n in (1, 2)] == ["replayed", None]
    assert bench.refused(CancelReplay("other")).kind == "not-found"


def test_nothing_that_matches_is_done_at_once(bench):
    """Also for a recipient that never was."""
    assert [str(start(bench, name, recipient=who).state) for name, who in (("a", None), ("b", "nobody"))] == [
        "done"
    ] * 2


def test_it_waits_for_room_and_leaves_half_of_a_queue(make_bench):
    """So what is sent evicts nothing that it replayed. Others' letters do not wait; when there is room, it goes on."""
    bench = make_bench(policy(queue_max=4))
    kill(bench, 6)
    kill(bench, 1, to="@pm", agent="pm")
    start(bench)
    run(bench)
    job = job_of(bench)
    assert (job.replayed, job.waiting) == (3, ("qa",))
    assert bench.exchange.next_due_us() >= now(bench.seconds).steady_us
    bench.send(to="@qa")
    bench.send(to="@qa")
    assert {bench.row(n).reason for n in (1, 2)} == {None}
    got = finish(bench)
    assert got["qa"][:2] == [1, 2]
    assert sorted(got["qa"]) == [1, 2, 3, 4, 5, 6, 8, 9]
    assert words(bench) == ("done", 7, 0)


def test_what_cannot_come_back_is_refused_and_passed(bench):
    """Expired, or for an agent that is none any more; the rest is not held up by it, and it stays dead."""
    kill(bench, 1)
    kill(bench, 1, expires_at_us=START_US + 500_000)
    kill(bench, 1)
    kill(bench, 2, to="@growth", agent="growth")
    bench.topology = topology(tuple(name for name in AGENTS if name != "growth"))
    bench.restart()
    start(bench)
    run(bench)
    assert words(bench) == ("done", 2, 3)
    assert [bench.letter(n, who).closure for n, who in ((2, "qa"), (4, "growth"))] == [None, None]


def test_what_somebody_else_deals_with_is_passed(bench):
    """By hand, in the same group too, or by another job: one delivery each, and counted once in all."""
    kill(bench, 40)
    start(bench, "one")
    start(bench, "two")
    bench.group(Replay(1, "qa"), Resolve(2, "qa", None))
    got = finish(bench, name="one")
    run(bench)
    assert got["qa"] == [1, *range(3, 41)]
    one, two = job_of(bench, "one"), job_of(bench, "two")
    assert (str(one.state), str(two.state)) == ("done", "done")
    assert one.replayed + two.replayed == 38
    assert one.refused + two.refused == 0


def test_the_same_job_is_started_once(bench):
    """Asked again under its id, as after a lost answer, it is the one there is; other words under it are refused."""
    kill(bench, 3)
    job = start(bench, rate=1, recipient="qa")
    bench.seconds += 5
    again = StartReplay("job", Filter("qa"), 1, None)
    assert bench.do(again) == (job, False)
    for other in (
        StartReplay("job", Filter("pm"), 1, None), StartReplay("job", Filter("qa"), 2, None),
        StartReplay("job", Filter("qa"), 1, 7), StartReplay("job", Filter("qa", None, 5), 1, None),
    ):  # fmt: skip
        assert bench.refused(other).kind == "idempotency-conflict"
    run(bench, 5)
    assert bench.do(again) == (job_of(bench), False)
    assert words(bench) == ("done", 3, 0)


def test_jobs_are_bounded(bench):
    """So many run; what has ended is kept for a while, and then the oldest goes."""
    kill(bench, 1)
    for n in range(RUNNING_MAX):
        start(bench, f"run-{n}", rate=0.001)
    problem = bench.refused(StartReplay("more", Filter(), None, None))
    assert (problem.kind, problem.retryable) == ("too-many-replays", True)
    bench.do(CancelReplay("run-0"))
    for n in range(ENDED_MAX + 5):
        start(bench, f"ended-{n}", recipient="nobody")
    kept = [job.id for job in bench.engine.snapshot().replays]
    assert len(kept) == ENDED_MAX + RUNNING_MAX - 1
    assert "run-0" not in kept
    assert {"run-1", f"ended-{ENDED_MAX + 4}"} <= set(kept)
    assert bench.refused(CancelReplay("run-0")).kind == "not-found"


def test_a_job_goes_on_after_a_restart(bench):
    """Where it was, with its counts."""
    kill(bench, 50)
    start(bench)
    bench.wait(0)
    bench.restart()
    assert bench.exchange.next_due_us() == now(bench.seconds).steady_us
    assert bench.do(StartReplay("job", Filter(), None, None))[1] is False
    got = finish(bench)
    assert got["qa"] == list(range(1, 51))
    assert words(bench) == ("done", 50, 0)


def test_a_tick_that_is_rolled_back_is_made_again(bench):
    """Neither the replays nor the counts of it remain."""
    kill(bench, 30)
    start(bench)

    def tick_and_fail():
        with bench.engine.begin() as store:
            bench.exchange.apply([Tick()], store, now(bench.seconds))
            raise Problem("store-unavailable", "The disk is full.")

    with pytest.raises(Problem):
        tick_and_fail()
    bench.exchange = Exchange(bench.topology, bench.engine.snapshot(), bench.policy, now(bench.seconds))
    assert words(bench) == ("running", 0, 0)
    assert finish(bench)["qa"] == list(range(1, 31))
    assert words(bench) == ("done", 30, 0)


def test_jobs_cost_nothing_while_there_is_none(bench):
    """No tick is due because of them."""
    kill(bench, 1)
    start(bench)
    run(bench)
    assert words(bench) == ("done", 1, 0)
    bench.ack(*bench.poll())
    run(bench, 31)
    assert bench.exchange.next_due_us() is None
