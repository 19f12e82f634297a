"""What replay jobs rely on, of every store engine."""

from dataclasses import replace

import pytest

from adapter.core.commands import NewMessage
from adapter.core.dead_letters import Cycle, DeadLetter, Filter, closed
from adapter.core.replay_job import JobState, ReplayJob
from tests.support.engines import ENGINES
from tests.support.factories import send

JOB = ReplayJob(
    "a", Filter("qa", "refused", 7), 2.5, 9, 8, 3, {"qa": 2**53 - 1, "pm": 0}, ("qa",), 1, 2, JobState.RUNNING
)
PLAIN = ReplayJob("b", Filter(None, None, 5), None, None, 6, 0, {}, (), 0, 0, JobState.DONE, 9)


@pytest.fixture(params=ENGINES)
def engine(request):
    opened = ENGINES[request.param]()
    yield opened
    opened.close()


class RollbackError(Exception):
    """Raised by a test to end a transaction badly."""


def letter(number, recipient="qa", reason="refused", died_at_us=10):
    return DeadLetter(number, recipient, 1, (Cycle(reason, None, 1, 0, died_at_us),))


@pytest.fixture
def graves(engine):
    """Dead letters of two recipients and two reasons, one of them closed."""
    letters = [
        letter(3), letter(1), letter(2, "pm"), letter(4, reason="expired"), letter(5, died_at_us=20), letter(6),
    ]  # fmt: skip
    with engine.begin() as store:
        for number in range(1, 7):
            store.add_message(NewMessage(number, number, number, send(), b"{}"))
        store.save_dead_letters([*letters[:-1], closed(letters[-1], "resolved", 11)])
    return engine


@pytest.mark.parametrize(
    ("wanted", "after", "limit", "found"),
    [
        (Filter("qa"), 0, 9, [1, 3, 4, 5]), (Filter("qa"), 1, 2, [3, 4]), (Filter("qa", "refused"), 0, 9, [1, 3, 5]),
        (Filter("qa", None, 20), 0, 9, [1, 3, 4]), (Filter("qa", "refused", 10), 0, 9, []), (Filter("pm"), 0, 9, [2]),
        (Filter("growth"), 0, 9, []), (Filter("nobody"), 0, 9, []), (Filter("qa"), 5, 9, []),
    ],
)  # fmt: skip
def test_open_dead_letters_come_in_commit_order(graves, wanted, after, limit, found):
    """Those of one recipient that match, above a message, so many at most."""
    with graves.begin() as store:
        assert store.open_dead_letters(wanted, after, limit) == found


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        (Filter(), {"qa": 4, "pm": 1}), (Filter("pm"), {"pm": 1}), (Filter(None, "expired"), {"qa": 1}),
        (Filter(None, None, 20), {"qa": 3, "pm": 1}), (Filter("nobody"), {}), (Filter(None, "overflow"), {}),
    ],
)  # fmt: skip
def test_open_dead_letters_are_counted_by_recipient(graves, wanted, counts):
    """Only recipients that have any."""
    with graves.begin() as store:
        assert dict(store.count_dead_letters(wanted)) == counts


def test_a_closed_one_is_passed_at_once(graves):
    """In the transaction that closes it."""
    with graves.begin() as store:
        store.save_dead_letters([closed(letter(3), "replayed", 12)])
        assert store.open_dead_letters(Filter("qa"), 0, 9) == [1, 4, 5]
        assert store.count_dead_letters(Filter("qa")) == {"qa": 3}


def test_a_job_comes_back_as_it_was_saved(engine):
    """Every field; oldest first; saving again replaces it."""
    with engine.begin() as store:
        store.save_replays([JOB])
        store.save_replays([PLAIN])
    assert engine.snapshot().replays == [PLAIN, JOB]
    moved = replace(JOB, lanes={"pm": 4}, waiting=(), replayed=2)
    with engine.begin() as store:
        store.save_replays([moved])
    assert engine.snapshot().replays == [PLAIN, moved]


def test_a_job_that_is_dropped_is_gone(engine):
    """It and no other; one that never was is no matter."""
    with engine.begin() as store:
        store.save_replays([JOB, PLAIN])
    with engine.begin() as store:
        store.drop_replays(["a", "never"])
    assert engine.snapshot().replays == [PLAIN]


def save_and_fail(engine):
    with engine.begin() as store:
        store.save_replays([replace(JOB, replayed=9)])
        store.drop_replays(["b"])
        raise RollbackError


def test_nothing_of_a_failed_transaction_remains(engine):
    """Neither the progress nor the dropping."""
    with engine.begin() as store:
        store.save_replays([JOB, PLAIN])
    with pytest.raises(RollbackError):
        save_and_fail(engine)
    assert engine.snapshot().replays == [PLAIN, JOB]
