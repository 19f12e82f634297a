"""How hand-overs end: tokens, budgets, lapses, restarts."""

import pytest

from adapter.core.commands import Ack, Claim, Extend, GiveBack, Nack, Tick, Unpark
from shared.problems import Problem
from tests.support.factories import AGENTS, claim, now, send


def test_a_hand_over_has_a_token_of_its_own(bench):
    """The next hand-over of the same message has another, and a higher number."""
    bench.send(to="@qa")
    first = bench.poll()[0]
    bench.nack(first, "release")
    second = bench.poll()[0]
    assert first.delivery_id != second.delivery_id
    assert (first.attempt, second.attempt) == (1, 2)


def test_an_ack_settles_and_may_be_repeated(bench):
    """The token that acked is welcome again; the first result stays."""
    bench.send(to="@qa")
    handed = bench.poll()[0]
    assert bench.ack(handed, results={handed.delivery_id: b"1"}) == [handed.delivery_id]
    assert bench.ack(handed, results={handed.delivery_id: b"2"}) == [handed.delivery_id]
    assert (bench.row(1).state.word, bench.row(1).result) == ("acked", b"1")


def test_a_stale_token_acks_nothing_and_the_fresh_ones_beside_it_do(bench):
    """409 names both (promise 5)."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    old, fresh = bench.poll()
    bench.nack(old, "release")
    problem = bench.ack(old, fresh)
    assert (problem.kind, problem.extra) == (
        "stale-lease", {"stale": [old.delivery_id], "acked": [fresh.delivery_id]},
    )  # fmt: skip
    assert (bench.row(1).state.word, bench.row(2).state.word) == ("queued", "acked")


def test_a_late_ack_after_the_redelivery_was_acked_is_stale(bench):
    """The message stays acked once (bull#308)."""
    bench.send(to="@qa")
    first = bench.poll()[0]
    bench.wait(31)
    bench.wait(1)
    second = bench.poll()[0]
    bench.ack(second)
    assert bench.ack(first).kind == "stale-lease"
    assert (bench.row(1).state.word, bench.row(1).token) == ("acked", second.delivery_id)


def test_a_late_ack_before_the_redelivery_is_stale(bench):
    """The lapse ended the lease; the message is handed over again, whole."""
    bench.send(to="@qa", payload={"text": "all of it"})
    first = bench.poll()[0]
    bench.wait(31)
    assert bench.ack(first).kind == "stale-lease"
    bench.wait(1)
    assert bench.poll()[0].envelope == first.envelope


@pytest.mark.parametrize(
    "token", ["nonsense", "1", "99.1.a", "-1.1.a", "ffffffffffffffff.1.a", "7fffffffffffffff.1.a", "f" * 64, "1_0.1.a"]
)
def test_a_delivery_that_never_was_is_unknown(bench, token):
    """Whatever was written there, and no number is too wide for the store."""
    for command, field in (
        (Ack("qa", (token,), {}), "/delivery_ids"),
        (Nack("qa", token, "fail", None), "/delivery_id"),
        (Extend("qa", (token,), 1), "/delivery_ids"),
    ):
        problem = bench.refused(command)
        assert (problem.kind, problem.field) == ("unknown-delivery", field)
    assert bench.do(GiveBack("qa", (token,))) is None


def test_the_delivery_of_another_agent_is_unknown(bench):
    """A token opens nothing to others."""
    bench.send(to="@pm")
    handed = bench.poll("pm")
    assert bench.ack(*handed, recipient="qa").kind == "unknown-delivery"
    assert bench.states(1) == {"pm": "leased"}


def test_one_recipients_failure_redelivers_to_no_other(bench):
    """Tracking is per recipient (promise 4)."""
    bench.send()
    handed = {agent: bench.poll(agent)[0] for agent in AGENTS}
    bench.nack(handed["qa"])
    bench.ack(handed["pm"], recipient="pm")
    assert bench.states(1) == dict.fromkeys(AGENTS, "leased") | {"qa": "queued", "pm": "acked"}


def test_three_failures_are_dead_with_the_last_reason(bench):
    """In the transaction of the third (nats-server#4956)."""
    bench.send(to="@qa")
    for wait in (1, 2, 0):
        settled = bench.nack(bench.poll()[0], "fail", "x" * 5_000)
        bench.wait(wait)
    row = bench.row(1)
    assert (settled.status, row.state.word, row.reason, row.detail) == ("dead", "dead", "max-attempts", "x" * 1_000)
    assert (row.failures, row.handovers) == (3, 3)
    assert bench.poll() == []


def test_the_wait_after_a_failure_grows(bench):
    """Nothing is handed out before its time."""
    bench.send(to="@qa")
    for seconds in (1, 2):
        bench.nack(bench.poll()[0])
        bench.wait(seconds - 0.001)
        assert bench.poll() == []
        bench.wait(0.001)
    assert len(bench.poll()) == 1


@pytest.mark.parametrize("act", ["release", "give-back", "recover"])
def test_what_comes_back_free_spends_nothing(bench, act):
    """A hundred times, and it is still alive (redis#949)."""
    bench.send(to="@qa")
    for number in range(100):
        poll_id = f"{number:08x}"
        handed = bench.do(Claim("qa", 10, 0, park=False, poll_id=poll_id))[0]
        if act == "release":
            bench.nack(handed, "release")
        elif act == "give-back":
            bench.do(GiveBack("qa", (handed.delivery_id,)))
        else:
            again = bench.do(Claim("qa", 10, 0, park=False, poll_id="f" * 8, lost=(poll_id,)))
            bench.nack(again[0], "release")
    assert (bench.row(1).failures, bench.row(1).state.word) == (0, "queued")


def test_a_give_back_leaves_alone_what_was_settled_since(bench):
    """It may come late."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    one, two = bench.poll()
    bench.ack(one)
    bench.nack(two, "release")
    fresh = bench.poll()
    bench.do(GiveBack("qa", (one.delivery_id, two.delivery_id)))
    assert (bench.row(1).state.word, bench.row(2).state.word) == ("acked", "leased")
    assert bench.ack(*fresh) == [fresh[0].delivery_id]


def test_a_lost_poll_gives_back_its_own_hand_overs_only(bench):
    """Those of another poll of the same agent stay out."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    bench.do(Claim("qa", 1, 0, park=False, poll_id="a" * 8))
    kept = bench.do(Claim("qa", 1, 0, park=False, poll_id="b" * 8))
    again = bench.do(Claim("qa", 10, 0, park=False, poll_id="c" * 8, lost=("a" * 8,)))
    assert [(item.delivery_id.split(".")[0], item.attempt) for item in again] == [("1", 2)]
    assert bench.ack(*kept) == [kept[0].delivery_id]


def test_a_refused_message_is_dead_at_once_and_holds_up_nobody(bench):
    """Validation, authorisation, poison."""
    bench.group(send(to="@qa"), send(to="@qa"))
    first, second = bench.poll()
    assert bench.nack(first, "refuse", "bad").status == "dead"
    assert (bench.row(1).reason, bench.row(1).detail, bench.row(1).failures) == ("refused", "bad", 0)
    assert bench.ack(second) == [second.delivery_id]


def test_a_nack_with_a_stale_token_changes_nothing(bench):
    """It says so, and the new holder keeps its lease."""
    bench.send(to="@qa")
    first = bench.poll()[0]
    bench.nack(first, "release")
    second = bench.poll()[0]
    for mode in ("fail", "refuse", "release"):
        assert bench.nack(first, mode).kind == "stale-lease"
    assert bench.ack(second) == [second.delivery_id]


def test_an_extension_is_all_or_nothing(bench):
    """One stale token among them, and no lease is longer."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    one, two = bench.poll()
    bench.nack(two, "release")
    assert bench.do(Extend("qa", (one.delivery_id, two.delivery_id), 60_000_000)).kind == "stale-lease"
    bench.wait(30)
    assert bench.ack(one).kind == "stale-lease"


def test_an_extended_lease_holds_until_its_new_end(bench):
    """And no longer."""
    bench.send(to="@qa")
    handed = bench.poll()[0]
    bench.seconds = 20
    until = bench.do(Extend("qa", (handed.delivery_id,), 60_000_000)).lease_until_us
    assert until == now(80).steady_us
    bench.wait(59)
    assert bench.row(1).state.word == "leased"
    bench.wait(1)
    assert bench.row(1).state.word == "queued"


def test_an_agent_that_does_not_poll_costs_no_attempts(bench):
    """A day of ticks changes nothing in a queue (promise 5)."""
    bench.send(to="@qa")
    bench.wait(86_400)
    assert (bench.row(1).handovers, bench.row(1).failures) == (0, 0)


def test_what_nobody_polls_for_asks_for_no_more_ticks(bench):
    """After its backoff it waits in silence; a deadline in the past would tick for ever."""
    bench.send(to="@qa")
    bench.nack(bench.poll()[0])
    assert bench.exchange.next_due_us() == now(1).steady_us
    bench.wait(1)
    bench.wait(29)
    assert bench.exchange.next_due_us() is None
    assert len(bench.poll()) == 1


def test_a_poison_message_kills_no_neighbour(bench):
    """Its receiver dies each time it is handed over; all others are acked in the end (dapr#5511)."""
    bench.group(*(send(to="@qa", task_id=f"t{n}") for n in range(10)))
    for _ in range(40):
        handed = bench.poll()
        if any(item.delivery_id.startswith("1.") for item in handed):
            bench.wait(31)
        else:
            bench.ack(*handed) if handed else bench.wait(5)
    assert [bench.row(n).state.word for n in range(1, 11)] == ["dead"] + ["acked"] * 9


def test_a_parked_poll_can_be_taken_back(bench):
    """Afterwards it gets nothing."""
    bench.do(claim("qa", park=True, ticket=1))
    bench.do(claim("qa", park=True, ticket=2))
    bench.do(Unpark("qa", 1))
    bench.send(to="@qa")
    assert [ticket for ticket, _, _ in bench.exchange.handed_over] == [2]


def test_parked_polls_are_served_first_come_first_served(bench):
    """And each gets something of its own."""
    for ticket in (1, 2, 3):
        bench.do(claim("qa", 1, park=True, ticket=ticket))
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    assert [ticket for ticket, _, _ in bench.exchange.handed_over] == [1, 2]


def test_a_parked_poll_gets_what_a_lapse_sets_free(bench):
    """The tick that ends a wait serves whoever waits."""
    bench.send(to="@qa")
    bench.nack(bench.poll()[0])
    bench.do(claim("qa", park=True, ticket=5))
    bench.wait(1)
    assert [ticket for ticket, _, _ in bench.exchange.handed_over] == [5]


def test_leases_outlive_a_restart(bench):
    """Token and end are as they were (promise 10)."""
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    one, _ = bench.poll()
    bench.restart()
    assert bench.poll() == []
    assert bench.ack(one) == [one.delivery_id]
    bench.wait(30)
    bench.wait(1)
    assert [item.attempt for item in bench.poll()] == [2]


def test_a_clock_that_was_ahead_holds_nothing_for_years(bench):
    """A stored deadline is clamped to what it can be at most (temporal#7030)."""
    bench.seconds = 10 * 365 * 86_400.0
    bench.group(send(to="@qa", task_id="a"), send(to="@qa", task_id="b"))
    bench.nack(bench.poll(count=1)[0])
    bench.poll()
    bench.seconds = 0
    bench.restart()
    bench.wait(60)
    assert [item.delivery_id[0] for item in bench.poll()] == ["1"]
    bench.wait(3_600)
    bench.wait(60)
    assert bench.row(2).state.word == "queued"


def test_a_group_is_decided_in_order(bench):
    """Send, poll, ack and tick of one group see each other."""
    sent, handed, _ = bench.group(send(to="@qa"), claim("qa"), Tick())
    assert sent.recipients[0].status == "leased"
    assert not isinstance(bench.ack(*handed), Problem)
