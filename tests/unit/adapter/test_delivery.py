"""The table of transitions is the whole truth about a delivery."""

import itertools

import pytest

from adapter.core.delivery import REASONS, TRANSITIONS, Event, State
from tests.support.factories import delivery

ILLEGAL = sorted(set(itertools.product(State, Event)) - set(TRANSITIONS))


@pytest.mark.parametrize(("state", "event"), TRANSITIONS)
def test_a_listed_transition_leads_where_the_table_says(state, event):
    """A legal event moves the delivery, and a deadly one leaves its reason."""
    subject = delivery(state=state)
    subject.move(event)
    assert subject.state is TRANSITIONS[state, event]
    assert subject.reason == REASONS.get(event)


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_unlisted_transition_raises_and_changes_nothing(state, event):
    """What is not in the table is illegal."""
    subject = delivery(state=state, reason="before")
    with pytest.raises(ValueError, match="cannot"):
        subject.move(event)
    assert (subject.state, subject.reason) == (state, "before")


def test_nothing_but_a_replay_leaves_a_final_state():
    """Acked deliveries stay so, and dead ones until somebody decides."""
    assert [leaving for leaving in TRANSITIONS if leaving[0] in {State.ACKED, State.DEAD}] == [
        (State.DEAD, Event.REPLAY)
    ]


def test_deaths_are_counted():
    """Each time it dies, however, and never otherwise."""
    subject = delivery()
    for event in (Event.EVICT, Event.REPLAY, Event.LEASE, Event.FAIL, Event.LEASE, Event.REFUSE, Event.REPLAY):
        subject.move(event)
    assert subject.cycles == 2


def test_every_death_has_a_reason():
    """A dead letter says why (promise 6)."""
    deadly = {event for (_, event), target in TRANSITIONS.items() if target is State.DEAD}
    assert deadly == set(REASONS)


@pytest.mark.parametrize("state", State)
def test_only_a_live_lease_is_held_by_its_token(state):
    """A token holds nothing once its lease has ended."""
    subject = delivery(state=state, token="1.1.a")  # noqa: S106 - a lease token
    assert subject.holds("1.1.a") is (state is State.LEASED)
    assert not subject.holds("1.1.b")
