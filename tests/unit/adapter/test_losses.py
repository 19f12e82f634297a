"""Where numbers go on after an older state was put in place, and what is known of each gap."""

from hypothesis import given
from hypothesis import strategies as st

from adapter.core.losses import NO_LOSSES, UNSURE_NUMBERS, Jump, Losses, end_of_numbers
from shared.lost_ranges import LostRange, Missing, explain, gap_document

NUMBERS = st.integers(0, 10_000)


@given(st.lists(st.integers(0, 3), max_size=200), st.data())
def test_no_sequence_is_given_twice_whatever_was_sent_since(channels, data):
    """Sends to any channels: after any of them a backup is made, and after any later one it is put in place."""
    at = data.draw(st.integers(0, len(channels)))
    given_before = [
        channels[:n].count(channel) for n, channel in zip(range(1, len(channels) + 1), channels, strict=True)
    ]
    state = {channel: channels[:at].count(channel) for channel in range(4)}
    reserved_end = len(channels) + data.draw(st.integers(1, 50))
    jumped = Jump(at, end_of_numbers(at, reserved_end, 0))
    assert jumped.end > len(channels)
    for channel, sequence in zip(channels[at:], given_before[at:], strict=True):
        assert sequence <= state[channel] + jumped.by


@given(st.lists(st.integers(0, 3), max_size=200), st.integers(1, 50))
def test_no_sequence_is_given_twice_where_nothing_vouches_for_counters(channels, ahead):
    """Whatever they say, each channel goes on behind all messages; and none comes further than all messages, so that
    this may happen again."""
    jumped = Jump(0, len(channels) + ahead, counted=False)
    assert all(channels.count(channel) <= jumped.floor for channel in channels)
    assert jumped.floor == jumped.end - 1


@given(NUMBERS)
def test_a_repair_whose_end_is_known_passes_over_no_sequence(counted):
    """It takes one number of a message, by which it is told from those before and after it."""
    jumped = Jump.over_nothing(counted)
    assert (jumped.by, jumped.floor) == (0, 0)
    assert end_of_numbers(jumped.end - 1, jumped.end, 0) > jumped.end > counted + 1


@given(NUMBERS, st.none() | NUMBERS, NUMBERS)
def test_the_end_lies_behind_all_that_is_known(state, reserved_end, seen):
    """Far behind, where nothing was reserved."""
    end = end_of_numbers(state, reserved_end, seen)
    assert end > max(state, seen, (reserved_end or 1) - 1)
    if reserved_end is None:
        assert end > max(state, seen) + UNSURE_NUMBERS


def test_each_restore_has_a_name_of_its_own():
    """Also where nothing was sent after the one before: the end grows, once an adapter has started in between."""
    first = end_of_numbers(5, 100, 5)
    assert end_of_numbers(5, first + 8_192, 5) > first


@given(st.integers(1, 60), st.integers(0, 30), st.sets(st.integers(1, 90), max_size=30))
def test_the_parts_of_a_gap_are_the_gap(first, length, lost):
    """In order, without a hole or an overlap, and each with the reason that it has."""
    ranges = [LostRange(number, number) for number in lost]
    parts = explain(first, first + length, ranges)
    numbers = [(number, part.reason) for part in parts for number in range(part.first, part.last + 1)]
    assert numbers == [(n, "restored" if n in lost else None) for n in range(first, first + length + 1)]


def test_a_gap_without_a_reason_looks_as_ever():
    """Nobody has to know the new field."""
    assert gap_document("product", Missing(1, 2, None)) == {"channel": "product", "from": 1, "to": 2}
    assert gap_document("product", Missing(1, 2, "restored"))["reason"] == "restored"


def test_losses_are_told_by_restore():
    """Those that came after the one that somebody has heard of."""
    old, new = LostRange(5, 9), LostRange(20, 29)
    losses = Losses(200, 0, 15, {"product": ((100, old), (200, new)), "@qa": ((100, old),)})
    assert losses.of("product") == [old, new]
    assert losses.since(0) == {"product": [old, new], "@qa": [old]}
    assert losses.since(100) == {"product": [new]}
    assert losses.since(200) == {}
    assert NO_LOSSES.of("product") == []
