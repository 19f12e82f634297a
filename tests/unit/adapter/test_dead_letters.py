"""What dies, is recorded; what is replayed, lives again in its old place; what is resolved, stays dead."""

import pytest

from adapter.core.commands import Replay, Resolve, TakeFile, Tick
from adapter.core.dead_letters import HISTORY_CYCLES_MAX
from shared.limits import REASON_CHARS_MAX
from shared.problems import Problem
from tests.support.factories import AGENTS, START_US, claim, membership, policy, send


def die(bench, **fields):
    """A message to qa that is refused; its number."""
    bench.send(to="@qa", **fields)
    handed = bench.poll()[-1]
    bench.nack(handed, "refuse", "no")
    return int(handed.delivery_id.split(".")[0], 16)


def replay(bench, *numbers):
    return bench.group(*(Replay(number, "qa") for number in numbers))


def test_a_death_is_recorded_with_it(bench):
    """Why, in whose words, after what, and when."""
    bench.send(to="@qa")
    bench.wait(2)
    for wait in (1, 2, 0):
        bench.nack(bench.poll()[0], "fail", "x" * 5_000)
        bench.wait(wait)
    letter = bench.letter(1)
    assert (letter.cycles, letter.closure, len(letter.history)) == (1, None, 1)
    cycle = letter.last
    assert (cycle.reason, cycle.detail, cycle.handovers, cycle.failures) == (
        "max-attempts",
        "x" * REASON_CHARS_MAX,
        3,
        3,
    )
    assert cycle.died_at_us == START_US + 5_000_000


def test_every_way_to_die_leaves_a_record(make_bench):
    """Each of the four reasons, the newcomer's own included."""
    bench = make_bench(policy(queue_max=1, critical_reserve=1))
    bench.send(to="@qa")
    bench.send(to="@qa", critical=True)
    bench.send(to="@qa")
    bench.nack(bench.poll()[0], "refuse")
    bench.send(to="@qa", expires_at_us=START_US + 1)
    bench.wait(1)
    assert [bench.letter(n).last.reason for n in (1, 2, 3, 4)] == ["overflow", "refused", "overflow", "expired"]


def test_a_replay_starts_from_the_beginning(bench):
    """Same message, same place, a fresh budget; hand-overs and cycles are counted on (mafintosh/sqs#41)."""
    bench.send(to="@qa", payload={"n": 1})
    for wait in (1, 2, 0):
        handed = bench.poll()[0]
        bench.nack(handed)
        bench.wait(wait)
    assert [settled.status for settled in replay(bench, 1)] == ["queued"]
    again = bench.poll()[0]
    assert (again.envelope, again.attempt, bench.row(1).failures) == (handed.envelope, 4, 0)
    assert bench.letter(1).closure == "replayed"
    assert bench.nack(again).status == "queued"


def test_a_second_death_is_the_same_record(bench):
    """With a raised cycle count and both deaths, newest last; and open again."""
    die(bench)
    replay(bench, 1)
    bench.nack(bench.poll()[0], "refuse", "still no")
    letter = bench.letter(1)
    assert (letter.cycles, letter.closure) == (2, None)
    assert [cycle.detail for cycle in letter.history] == ["no", "still no"]


def test_the_history_is_bounded(bench):
    """The newest deaths stay, and the count goes on."""
    die(bench)
    for n in range(HISTORY_CYCLES_MAX + 3):
        replay(bench, 1)
        bench.nack(bench.poll()[0], "refuse", str(n))
    letter = bench.letter(1)
    assert letter.cycles == HISTORY_CYCLES_MAX + 4
    assert [cycle.detail for cycle in letter.history] == [str(n) for n in range(3, HISTORY_CYCLES_MAX + 3)]


@pytest.mark.parametrize("state", ["queued", "leased", "acked", "replayed", "resolved"])
def test_what_is_not_dead_is_not_replayed(bench, state):
    """Nor resolved; and nothing changes."""
    if state in ("replayed", "resolved"):
        die(bench)
        bench.do(Replay(1, "qa") if state == "replayed" else Resolve(1, "qa", None))
    else:
        bench.send(to="@qa")
        handed = bench.poll() if state != "queued" else []
        if state == "acked":
            bench.ack(*handed)
    before = bench.row(1), bench.letter(1)
    for command in (Replay(1, "qa"), Resolve(1, "qa", None)):
        assert bench.refused(command).kind == "not-dead"
    assert (bench.row(1).state, bench.letter(1)) == (before[0].state, before[1])


@pytest.mark.parametrize(("number", "recipient"), [(2, "qa"), (1, "pm"), (1, "nobody"), (1, "adapter")])
def test_what_never_was_is_not_found(bench, number, recipient):
    """Whatever is asked for."""
    die(bench)
    for command in (Replay(number, recipient), Resolve(number, recipient, None)):
        assert bench.refused(command).kind == "not-found"


def test_two_replays_at_once_give_one_delivery(bench):
    """The second is told so (mafintosh/sqs#41)."""
    die(bench)
    first, second = replay(bench, 1, 1)
    assert (first.status, second.kind) == ("queued", "not-dead")
    assert len(bench.poll()) == 1
    assert bench.poll() == []


def test_two_deaths_in_one_group_are_both_told(make_bench):
    """Evicted, replayed and evicted again before anything is committed: the history has both."""
    bench = make_bench(policy(queue_max=2))
    bench.group(send(to="@qa"), send(to="@qa"))
    held = bench.poll(count=1)
    assert [one.delivery_id.split(".")[0] for one in held] == ["1"]
    evict = send(to="@qa")
    bench.group(evict)
    assert bench.row(2).reason == "overflow"
    bench.ack(*held)
    bench.group(Replay(2, "qa"), send(to="@qa"), Tick())
    assert (bench.letter(2).cycles, len(bench.letter(2).history)) == (2, 2)


def test_a_replay_wakes_a_poll_that_waits(bench):
    """In the same commit."""
    die(bench)
    assert bench.do(claim("qa", park=True)) is None
    replay(bench, 1)
    ((_, recipient, (handed,)),) = bench.exchange.handed_over
    assert (recipient, handed.attempt) == ("qa", 2)


def test_a_replayed_message_goes_before_the_later_ones_of_its_line(bench):
    """As long as those are not handed out: "cancel X" still follows "start X"."""
    die(bench)
    bench.send(to="@qa")
    bench.send(to="@qa")
    replay(bench, 1)
    assert [one.delivery_id.split(".")[0] for one in bench.poll()] == ["1", "2", "3"]


def test_what_was_handed_out_meanwhile_is_not_called_back(bench):
    """Neither by the replay, nor when the replayed one fails; what comes after both waits for both."""
    die(bench)
    bench.send(to="@qa")
    (second,) = bench.poll()
    bench.send(to="@qa")
    replay(bench, 1)
    (first,) = bench.poll()
    assert first.delivery_id.startswith("1.")
    bench.nack(first)
    bench.wait(1)
    assert bench.ack(second) == [second.delivery_id]
    assert [one.delivery_id.split(".")[0] for one in bench.poll()] == ["1", "3"]


def test_the_place_of_a_replayed_message_outlives_a_restart(bench):
    """The line is the same when it is read from the store, and so is what was handed out together."""
    die(bench)
    bench.send(to="@qa")
    (second,) = bench.poll()
    replay(bench, 1)
    (first,) = bench.poll()
    bench.restart()
    bench.nack(first)
    assert bench.ack(second) == [second.delivery_id]


def test_a_replay_into_a_full_queue_is_refused(make_bench):
    """It evicts nothing, and the letter stays as it is."""
    bench = make_bench(policy(queue_max=2))
    die(bench)
    bench.group(send(to="@qa"), send(to="@qa"))
    problem = bench.refused(Replay(1, "qa"))
    assert (problem.kind, problem.retry_after) == ("queue-full", 5.0)
    assert (bench.letter(1).closure, bench.states(2), bench.states(3)) == (None, {"qa": "queued"}, {"qa": "queued"})
    bench.ack(*bench.poll(count=1))
    assert bench.do(Replay(1, "qa")).status == "queued"


def test_a_critical_replay_may_use_the_reserve(make_bench):
    """As a critical newcomer may, and no further."""
    bench = make_bench(policy(queue_max=1, critical_reserve=1))
    die(bench, critical=True)
    die(bench, critical=True)
    bench.send(to="@qa")
    first, second = replay(bench, 1, 2)
    assert (first.status, second.kind) == ("queued", "queue-full")


def test_an_expired_message_is_not_replayed(bench):
    """It would die again on the spot; it can be resolved."""
    bench.send(to="@qa", expires_at_us=START_US + 1_000_000)
    bench.wait(1)
    assert bench.refused(Replay(1, "qa")).kind == "expired"
    assert bench.do(Resolve(1, "qa", "too late")).status == "dead"


def test_a_replay_does_not_reach_others(make_bench):
    """One recipient's delivery, and no other's."""
    bench = make_bench()
    bench.send(to="product")
    bench.nack(bench.poll()[0], "refuse")
    bench.ack(*bench.poll("pm"), recipient="pm")
    replay(bench, 1)
    assert (bench.states(1)["qa"], bench.states(1)["pm"], bench.states(1)["growth"]) == ("queued", "acked", "queued")


def test_a_sender_that_asks_again_learns_of_the_replay(bench):
    """Its key names the message that lives again (promise 2)."""
    command = send(to="@qa")
    bench.do(command)
    bench.nack(bench.poll()[0], "refuse")
    assert bench.do(command).recipients[0].status == "dead"
    replay(bench, 1)
    again = bench.do(command)
    assert (again.duplicate, again.recipients[0].status, again.recipients[0].reason) == (True, "queued", None)


def test_an_old_token_is_no_good_after_a_replay(bench):
    """Not before it is handed over again, and not after."""
    bench.send(to="@qa")
    old = bench.poll()[0]
    bench.nack(old, "refuse")
    replay(bench, 1)
    assert bench.ack(old).kind == "stale-lease"
    fresh = bench.poll()[0]
    assert bench.ack(old).kind == "stale-lease"
    assert bench.ack(fresh) == [fresh.delivery_id]


def test_a_resolution_says_how(bench):
    """The note is bounded; the message stays dead and readable."""
    die(bench)
    bench.do(Resolve(1, "qa", "y" * 5_000))
    letter = bench.letter(1)
    assert (letter.closure, letter.note, letter.closed_at_us) == ("resolved", "y" * REASON_CHARS_MAX, START_US)
    assert bench.row(1).state.word == "dead"


def test_time_runs_out_without_a_poll(bench):
    """The tick is due then, and what waits dies; what is in somebody's hands does not (promise 6)."""
    bench.send(to="@qa", expires_at_us=START_US + 5_000_000, task_id="a")
    bench.send(to="@pm", expires_at_us=START_US + 5_000_000)
    (held,) = bench.poll()
    assert bench.exchange.next_due_us() == START_US + 5_000_000
    bench.wait(5)
    assert (bench.states(1), bench.states(2)) == ({"qa": "leased"}, {"pm": "dead"})
    bench.nack(held, "release")
    bench.wait(0)
    assert (bench.states(1), bench.row(1).reason) == ({"qa": "dead"}, "expired")
    bench.wait(30)
    assert bench.exchange.next_due_us() is None


def test_expiry_outlives_a_restart(bench):
    """The sweep is due again in the next process."""
    bench.send(to="@qa", expires_at_us=START_US + 5_000_000)
    bench.restart()
    assert bench.exchange.next_due_us() == START_US + 5_000_000


def test_settled_messages_leave_no_expiry_behind(bench):
    """Ten thousand messages with a distant expiry, all processed: nothing to sweep is kept of them."""
    for n in range(0, 10_000, 100):
        bench.group(*(send(to="@qa", expires_at_us=START_US + 10**12, payload=n + k) for k in range(100)))
        bench.ack(*bench.poll(count=100))
    assert len(bench.exchange._books.mailboxes["qa"]._expiries) < 200


def test_the_dead_letters_of_a_removed_agent_can_be_resolved(bench):
    """There is no queue to replay them into, and they must not stay open for ever."""
    die(bench)
    bench.do(TakeFile(membership(tuple(agent for agent in AGENTS if agent != "qa"))))
    assert bench.refused(Replay(1, "qa")).kind == "unknown-recipient"
    assert bench.do(Resolve(1, "qa", "gone")).status == "dead"


def test_problems_are_problems(bench):
    """A refusal is answered, and the group goes on."""
    die(bench)
    first, second = bench.group(Replay(9, "qa"), Replay(1, "qa"))
    assert isinstance(first, Problem)
    assert second.status == "queued"
