"""The count: each kind of loss is seen."""

import pytest

from bench.census import Census, enter_queued


def census_of(*sequences: int, channel: str = "@sink") -> Census:
    """A census of sends at these sequences, all of which arrived in order."""
    census = Census()
    for sequence in sequences:
        census.answered(f"k{sequence}", 201, (channel, sequence))
        census.arrived("sink", f"k{sequence}", (channel, sequence))
    return census


def test_what_was_sent_and_arrived_is_right():
    """Nothing is found where nothing is wrong, wherever the sequences start."""
    assert census_of(7, 8, 9).faults(["sink"]) == []


def test_a_send_that_was_not_stored_now_is_a_fault():
    """Neither a refusal nor a duplicate counts as a send."""
    census = census_of(1)
    census.answered("k2", 429, ("", 0))
    census.answered("k1", 200, ("@sink", 1))
    assert census.faults(["sink"]) == ["send k2 was answered 429", "send k1 was answered 200"]


def test_a_message_that_never_arrived_is_a_fault_of_that_recipient_alone():
    """Each recipient is counted apart."""
    census = census_of(1, 2)
    census.arrived("qa", "k1", ("@sink", 1))
    assert census.faults(["sink", "qa"]) == ["qa never got k2 at ('@sink', 2)"]


def test_a_hole_in_the_sequences_is_a_fault():
    """A number that nobody got is a message that was stored for nobody."""
    assert census_of(1, 2, 4).faults(["sink"]) == ["3 sends to @sink got the sequences 1 to 4"]


def test_a_sequence_given_twice_is_a_fault():
    """Two sends with one place: the second took the place of the first."""
    census = census_of(1, 2)
    census.answered("k3", 201, ("@sink", 2))
    census.arrived("sink", "k3", ("@sink", 3))
    faults = census.faults(["sink"])
    assert "3 sends to @sink got the sequences 1 to 2" in faults
    assert "sink got k3 at ('@sink', 3)" in faults


def test_a_message_that_came_twice_or_late_is_a_fault():
    """Lease times are long here, so nothing may come again, and never behind a later one."""
    census = census_of(1, 2)
    census.arrived("sink", "k1", ("@sink", 1))
    assert census.faults(["sink"]) == [
        "sink got 1 messages more than once",
        "sink got messages of @sink out of order",
    ]


def test_a_message_that_nobody_sent_is_a_fault():
    """What was left by something else is not taken for our own."""
    census = census_of(1)
    census.arrived("sink", "other", ("@sink", 2))
    assert census.faults(["sink"]) == ["sink got other, which nobody sent"]


def test_many_faults_of_a_kind_are_cut():
    """A total loss does not fill the screen."""
    census = Census()
    for number in range(1, 101):
        census.answered(f"k{number:03}", 201, ("@sink", number))
    faults = census.faults(["sink"])
    assert len(faults) == 6
    assert faults[-1] == "... and 95 more like the last"


@pytest.mark.parametrize(
    ("arrived", "words"),
    [
        (("a1", "b1", "a2", "b2"), []),
        (("a1", "b1", "b2"), ["sink never got a2 of a"]),
        (("a2", "b1", "a1", "b2"), ["sink got messages of a in another order than they were sent"]),
        (("a1", "b1", "a2", "b2", "c1"), ["sink got c1, which nobody sent"]),
        (("a1", "b1", "a1", "a2", "b2"), ["sink got 1 messages more than once"]),
    ],
)
def test_what_outboxes_took_is_counted_where_it_arrived(arrived, words):
    """Whatever the senders' turns were: each message once, and each sender's in the order in which they were taken."""
    census = Census()
    for sequence, key in enumerate(arrived, 1):
        census.arrived("sink", key, ("@sink", sequence))
    found = enter_queued(census, {"a": ["a1", "a2"], "b": ["b1", "b2"]}, "sink")
    found += census.faults(["sink"])
    assert [word for word in words if word not in found] == []
    assert bool(found) == bool(words)
