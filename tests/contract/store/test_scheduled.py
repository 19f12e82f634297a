"""What scheduling relies on, of every store engine."""

from dataclasses import replace

import pytest

from adapter.core.appointment import Appointment, AppointmentState
from adapter.core.commands import ScheduledSend
from adapter.store import memory, schedule
from tests.support.engines import ENGINES
from tests.support.factories import new_key, scheduled, send


@pytest.fixture(params=ENGINES)
def engine(request):
    opened = ENGINES[request.param]()
    yield opened
    opened.close()


class RollbackError(Exception):
    """Raised by a test to end a transaction badly."""


def waiting(number=1, sender="pm", standing=AppointmentState.SCHEDULED, **fields):
    """A scheduled send as it is stored."""
    command = scheduled(sender, at=2_000 - number % 1_000, **fields)
    appointment = Appointment(number, sender, command.idempotency_key, command.deliver_at_us, standing)
    return ScheduledSend(appointment, command, 5)


def save(engine, *all_of_them):
    with engine.begin() as store:
        for one in all_of_them:
            store.save_scheduled(one)


def find(engine, one):
    with engine.begin() as store:
        return store.find_scheduled(one.send.sender, one.send.idempotency_key)


FULL = replace(
    waiting(
        2**53, "qa", AppointmentState.FAILED, to="@pm", critical=True, keep_forever=True, rate_class="progress",
        expires=9e9, task_id="t", payload={"text": "wörds\u2028", "n": [1.5, None]},
    ),
    accepted_at_us=-5, reason="not-a-member", detail="wörds\n",
)  # fmt: skip


@pytest.mark.parametrize("stored", [waiting(), FULL], ids=["plain", "full"])
def test_it_comes_back_as_it_was_saved(engine, stored):
    """In its own transaction and in every later one; nobody else's, and not as a message."""
    key = stored.send.idempotency_key
    with engine.begin() as store:
        assert store.find_scheduled(stored.send.sender, key) is None
        store.save_scheduled(stored)
        assert store.find_scheduled(stored.send.sender, key) == stored
    with engine.begin() as store:
        assert store.find_scheduled(stored.send.sender, key) == stored
        assert store.find_scheduled("research", key) is None
        assert store.find_scheduled("nobody", key) is None
        assert store.find_send(stored.send.sender, key) is None


def test_it_is_one_record_for_each_sender_and_key(engine):
    """Saving again replaces it; the same key of another sender is another one."""
    key = new_key()
    mine, others = waiting(1, idempotency_key=key), waiting(2, "qa", idempotency_key=key)
    save(engine, mine, others)
    failed = replace(mine, reason="expired", appointment=replace(mine.appointment, standing=AppointmentState.FAILED))
    save(engine, failed)
    assert (find(engine, mine), find(engine, others)) == (failed, others)


def test_what_was_sent_is_gone(engine):
    """Within its transaction and after it; the key may then be scheduled anew, as far as the store goes."""
    one, other = waiting(1), waiting(2)
    save(engine, one, other)
    with engine.begin() as store:
        store.drop_scheduled("pm", one.send.idempotency_key)
        assert store.find_scheduled("pm", one.send.idempotency_key) is None
    assert (find(engine, one), find(engine, other)) == (None, other)
    save(engine, one)
    assert find(engine, one) == one


def save_drop_and_fail(engine, saved, dropped):
    with engine.begin() as store:
        store.save_scheduled(saved)
        store.drop_scheduled("pm", dropped.send.idempotency_key)
        raise RollbackError


def test_nothing_of_a_failed_transaction_remains(engine):
    """Neither what it saved nor that it dropped something."""
    one, other = waiting(1), waiting(2)
    save(engine, one)
    with pytest.raises(RollbackError):
        save_drop_and_fail(engine, other, one)
    assert (find(engine, one), find(engine, other)) == (one, None)
    assert engine.snapshot().appointments == [one.appointment]


def test_a_snapshot_holds_keys_and_times_in_order_of_acceptance(engine):
    """What waits and what failed, whichever is due first; what was cancelled is remembered by the store alone."""
    third, first, second = waiting(3), waiting(1, "qa"), waiting(2, standing=AppointmentState.FAILED)
    save(engine, third, waiting(4, standing=AppointmentState.CANCELLED), first, second)
    assert engine.snapshot().appointments == [first.appointment, second.appointment, third.appointment]


def test_of_cancelled_ones_the_newest_are_kept(engine, monkeypatch):
    """By when they were cancelled, not by when they were scheduled; what waits or failed is never forgotten."""
    for module in (memory, schedule):
        monkeypatch.setattr(module, "CANCELLED_KEPT_MAX", 3)
    ones = [waiting(number) for number in range(1, 8)]
    failed = waiting(8, standing=AppointmentState.FAILED)
    save(engine, failed, *ones)
    for position in (4, 0, 6, 2, 1):
        one = ones[position]
        appointment = replace(one.appointment, standing=AppointmentState.CANCELLED)
        save(engine, replace(one, appointment=appointment, send=replace(one.send, envelope={})))
    kept = [position for position, one in enumerate(ones) if find(engine, one) is not None]
    assert kept == [1, 2, 3, 5, 6]
    assert find(engine, failed) == failed


def test_a_send_without_a_time_is_not_confused_with_one(engine):
    """The two tables have keys of their own."""
    with engine.begin() as store:
        assert store.find_scheduled("pm", send().idempotency_key) is None
