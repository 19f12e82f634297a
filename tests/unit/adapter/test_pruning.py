"""Pruning in the exchange: what goes, what stays, what is told, and what comes after."""

import pytest

from adapter.core.commands import Resolve, Tick
from adapter.core.policy import Now
from adapter.core.pruning import FIRST_CHECK_US, GIVE_BACK_PAGES, PAUSE_US
from adapter.core.retention import BATCH_ROWS, Ages, RetentionPolicy
from shared.times import MICROSECONDS
from tests.support.clock import us
from tests.support.engines import ENGINES
from tests.support.factories import START_US, policy, send

DAY = 86_400.0
CHECK = 300.0
AGES = RetentionPolicy(
    Ages(us(30 * DAY), None), {"platform": Ages(us(DAY), us(3 * DAY))}, check_us=us(CHECK), agree_us=us(DAY)
)


@pytest.fixture(params=ENGINES)
def bench(request, make_bench):
    """An exchange that looks at ages every five minutes, over each engine."""
    made = make_bench(policy(retention=AGES, lease_seconds=3_600.0))
    made.engine.close()
    made.engine = ENGINES[request.param]()
    yield made
    made.engine.close()


def run(bench, seconds, step_us=0):
    """Time passes, with ticks as they are due; `step_us` is what the wall is ahead of the steady clock."""
    bench.seconds += seconds
    steady_us = START_US + us(bench.seconds)
    alarms = []
    while True:
        with bench.engine.begin() as store:
            bench.exchange.apply([Tick()], store, Now(steady_us + step_us, steady_us))
        alarms += bench.exchange._books.changes.alarms
        due_us = bench.exchange.next_due_us()
        if due_us is None or due_us - steady_us > PAUSE_US:
            return [(alarm.kind, alarm.agent, alarm.reason) for alarm in alarms]
        steady_us = due_us


def day_by_day(bench, days):
    for _ in range(days):
        run(bench, DAY)


def stored(bench, channel="product", first=1, last=9):
    with bench.engine.begin() as store:
        return [n for n in range(first, last + 1) if store.envelope_at(channel, n) is not None]


def consume(bench, recipient="qa"):
    handed = bench.poll(recipient, 100)
    bench.ack(*handed, recipient=recipient)
    return handed


def test_what_everybody_has_goes_when_it_is_too_old(bench):
    """With its deliveries; not a day before."""
    sent = send(to="@qa")
    bench.do(sent)
    consume(bench)
    day_by_day(bench, 30)
    assert stored(bench, "@qa") == [1]
    day_by_day(bench, 1)
    assert stored(bench, "@qa") == []
    assert bench.states(1) == {}
    assert bench.exchange.pruning.messages == 1
    assert bench.exchange.pruning.last_pass_us == START_US + us(bench.seconds) + PAUSE_US


def test_sequences_survive(bench):
    """All is pruned, the process restarts, and the next number is the next number."""
    for _ in range(10):
        bench.send(to="@qa")
    consume(bench)
    day_by_day(bench, 31)
    assert stored(bench, "@qa", 1, 10) == []
    assert bench.send(to="@qa").sequence == 11
    bench.restart()
    assert bench.send(to="@qa").sequence == 12


def test_what_is_not_received_stays_until_it_is(bench):
    """By one of its recipients; its neighbours go."""
    for _ in range(3):
        bench.send(to="product")
    handed = {agent: bench.poll(agent, 100) for agent in bench.topology.members["product"]}
    for agent, messages in handed.items():
        bench.ack(*(messages if agent != "qa" else messages[:1] + messages[2:]), recipient=agent)
    bench.nack(handed["qa"][1], "release")
    day_by_day(bench, 60)
    assert stored(bench) == [2]
    bench.restart()
    day_by_day(bench, 1)
    assert len(consume(bench)) == 1
    run(bench, CHECK)
    assert stored(bench) == []


def test_an_open_dead_letter_stays_until_it_is_resolved(bench):
    """Then message, delivery and record go together."""
    bench.send(to="@qa")
    bench.nack(bench.poll()[0], "refuse")
    day_by_day(bench, 60)
    assert stored(bench, "@qa") == [1]
    bench.do(Resolve(1, "qa", None))
    run(bench, CHECK)
    assert (stored(bench, "@qa"), bench.letter(1), bench.row(1)) == ([], None, None)


def test_contracts_are_kept(bench):
    """For ever, unless their channel has an age for them."""
    for channel in ("product", "platform"):
        bench.send(to=channel, keep_forever=True)
        bench.send(to=channel)
    for agent in bench.topology.members["product"]:
        consume(bench, agent)
    day_by_day(bench, 2)
    assert (stored(bench), stored(bench, "platform")) == ([1, 2], [1])
    day_by_day(bench, 400)
    assert (stored(bench), stored(bench, "platform")) == ([1], [])


def test_a_key_is_forgotten_with_its_message(bench):
    """Until then the first answer comes again; afterwards the send is a new one."""
    again = send(to="@qa")
    bench.do(again)
    consume(bench)
    day_by_day(bench, 30)
    assert bench.do(again).duplicate
    day_by_day(bench, 1)
    anew = bench.do(again)
    assert (anew.duplicate, anew.sequence) == (False, 2)


def test_a_key_that_goes_in_its_own_group_is_new_there(bench):
    """The group that prunes a message does not answer for it from what it had read before."""
    again = send(to="@qa")
    bench.do(again)
    consume(bench)
    day_by_day(bench, 30)
    bench.seconds += DAY
    assert not bench.group(Tick(), again)[1].duplicate


def test_a_reply_to_what_is_gone_is_taken(bench):
    """It inherits nothing; a reply into the future is still refused."""
    bench.send(to="product", thread_id="t")
    for agent in bench.topology.members["product"]:
        consume(bench, agent)
    day_by_day(bench, 31)
    assert bench.send("qa", to="product", reply_to_sequence_id=1).sequence == 2
    with bench.engine.begin() as store:
        assert b"inherited" not in store.envelope_at("product", 2)
    assert bench.refused(send("qa", to="product", reply_to_sequence_id=4)).field == "/reply_to_sequence_id"


def test_it_goes_in_batches_with_pauses(bench):
    """One batch in a group, the next after a pause, and then not before the next pass."""
    for _ in range(BATCH_ROWS + 1):
        bench.send(to="@qa")
    while consume(bench):
        pass
    day_by_day(bench, 30)
    bench.seconds += DAY
    bench.do(Tick())
    assert bench.exchange.pruning.messages == BATCH_ROWS
    assert bench.exchange.next_due_us() == START_US + us(bench.seconds) + PAUSE_US
    bench.do(Tick())
    assert bench.exchange.pruning.messages == BATCH_ROWS
    for _ in range(2):
        bench.seconds += PAUSE_US / MICROSECONDS
        bench.do(Tick())
        assert bench.exchange.pruning.messages == BATCH_ROWS + 1
    assert bench.exchange.next_due_us() == START_US + us(bench.seconds + CHECK)


def test_much_free_space_is_given_back_in_steps(bench, monkeypatch):
    """After a pass, with the same pauses, and no more than was found then; the pass ends with it."""
    with bench.engine.begin() as store:
        kind = type(store)
    given = []
    monkeypatch.setattr(kind, "space", lambda _: (4_000, 1_040))
    monkeypatch.setattr(kind, "give_back", lambda _, pages: given.append(pages))
    bench.seconds = CHECK
    for _ in range(2 + 744 // GIVE_BACK_PAGES):
        assert bench.exchange.pruning.last_pass_us == 0
        bench.do(Tick())
        bench.seconds += PAUSE_US / MICROSECONDS
    assert given == [GIVE_BACK_PAGES] * (744 // GIVE_BACK_PAGES) + [744 % GIVE_BACK_PAGES]
    assert bench.exchange.pruning.last_pass_us


def test_what_was_looked_at_is_not_looked_at_again(bench, monkeypatch):
    """The floor outlives a restart and lies behind contracts and what is held."""
    for _ in range(3):
        bench.send(to="@qa", keep_forever=True)
    bench.send(to="@qa")
    day_by_day(bench, 31)
    bench.restart()
    asked = []
    with bench.engine.begin() as store:
        kind = type(store)
    retained = kind.retained
    monkeypatch.setattr(kind, "retained", lambda self, *given: asked.append(given[:2]) or retained(self, *given))
    run(bench, CHECK)
    assert ("@qa", 4) in asked
    assert ("@qa", 0) not in asked
    assert stored(bench, "@qa") == [1, 2, 3, 4]


def test_nothing_is_pruned_right_after_a_start(bench):
    """There is more urgent work."""
    bench.restart()
    assert bench.exchange.next_due_us() == START_US + FIRST_CHECK_US


def test_a_jump_of_40_days_prunes_nothing(bench):
    """It is told, and counts once both clocks have agreed for a day."""
    bench.send(to="@qa")
    consume(bench)
    run(bench, CHECK)
    assert run(bench, CHECK, us(40 * DAY)) == [("clock", "adapter", "ahead")]
    assert (stored(bench, "@qa"), bench.exchange.pruning.clock_doubted) == ([1], True)
    assert run(bench, DAY - 1, us(40 * DAY)) == []
    assert stored(bench, "@qa") == [1]
    assert run(bench, CHECK, us(40 * DAY)) == []
    assert (stored(bench, "@qa"), bench.exchange.pruning.clock_doubted) == ([], False)


def test_a_jump_across_a_restart_prunes_nothing(bench):
    """The last trusted reading is stored: what lies between counts for nothing until the clocks agree."""
    bench.send(to="@qa")
    consume(bench)
    run(bench, CHECK)
    bench.seconds += 40 * DAY
    bench.restart()
    assert run(bench, CHECK) == [("clock", "adapter", "ahead")]
    assert stored(bench, "@qa") == [1]
    run(bench, DAY)
    assert stored(bench, "@qa") == []


def test_what_may_be_forgotten_never_shrinks(bench):
    """It follows what went, outlives a restart, and stays where it was when the clock goes back for good."""
    bench.send(to="@qa")
    bench.ack(*bench.poll())
    day_by_day(bench, 40)
    before_us = bench.engine.snapshot().forgotten_us
    assert before_us == START_US + 1
    bench.restart()
    run(bench, CHECK, -us(5 * DAY))
    run(bench, DAY, -us(5 * DAY))
    assert (bench.exchange.pruning.clock_doubted, bench.engine.snapshot().forgotten_us) == (False, before_us)


def test_to_1970_and_back_changes_nothing(bench):
    """Neither while the date is lost nor when it is found."""
    bench.send(to="@qa")
    consume(bench)
    day_by_day(bench, 29)
    assert run(bench, CHECK, -START_US) == [("clock", "adapter", "behind")]
    assert run(bench, CHECK, 0) == []
    assert stored(bench, "@qa") == [1]
    day_by_day(bench, 2)
    assert stored(bench, "@qa") == []


def test_an_hour_back_changes_nothing(bench):
    """It is no jump; what is an hour too young stays for an hour."""
    bench.send(to="@qa")
    consume(bench)
    day_by_day(bench, 30)
    assert run(bench, 2 * CHECK, -us(3_600)) == []
    assert stored(bench, "@qa") == [1]
    run(bench, 3_600 + CHECK, -us(3_600))
    assert stored(bench, "@qa") == []
