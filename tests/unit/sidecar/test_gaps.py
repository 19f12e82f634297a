"""Gaps: passed over once, told once."""

import random

from hypothesis import given
from hypothesis import strategies as st

from shared.lost_ranges import LostRange
from sidecar.core.gaps import advance, explained, news
from sidecar.core.hand_over import read_losses
from sidecar.store.seen import Seen


def test_a_jump_reveals_what_it_passed_over() -> None:
    """1 then 4 reveals 2 to 3; the baseline of a channel never seen is 0; channels are apart."""
    assert advance({"a": 1}, [("a", 4), ("b", 1)]) == ({"a": 4, "b": 1}, [{"channel": "a", "from": 2, "to": 3}])
    assert advance({}, [("a", 3)]) == ({"a": 3}, [{"channel": "a", "from": 1, "to": 2}])


def test_what_comes_again_or_late_is_no_gap() -> None:
    """At or below the highest nothing moves and nothing is told."""
    assert advance({"a": 9}, [("a", 9), ("a", 3)]) == ({}, [])


@given(st.lists(st.integers(1, 60), min_size=1, unique=True), st.integers(0, 2**32), st.integers(1, 10))
def test_every_sequence_is_handed_or_told_exactly_once(sequences: list[int], seed: int, size: int) -> None:
    """Whatever arrives in whatever order: below the highest, each sequence that never came first is told once."""
    random.Random(seed).shuffle(sequences)
    highest: dict[str, int] = {}
    told: list[int] = []
    for start in range(0, len(sequences), size):
        moved, gaps = advance(highest, [("a", sequence) for sequence in sequences[start : start + size]])
        highest.update(moved)
        told += [sequence for gap in gaps for sequence in range(gap["from"], gap["to"] + 1)]
    assert highest["a"] == max(sequences)
    assert len(told) == len(set(told))
    assert set(told) | set(sequences) == set(range(1, max(sequences) + 1))


def test_a_gap_is_told_in_parts_where_some_of_it_was_lost() -> None:
    """Each with its reason; other channels have none."""
    gaps = [{"channel": "a", "from": 2, "to": 9}, {"channel": "b", "from": 1, "to": 1}]
    assert explained(gaps, {"a": [LostRange(4, 20)]}) == [
        {"channel": "a", "from": 2, "to": 3},
        {"channel": "a", "from": 4, "to": 9, "reason": "restored"},
        {"channel": "b", "from": 1, "to": 1},
    ]


def test_what_was_lost_is_told_as_far_as_it_was_not_handed_over() -> None:
    """An agent that was ahead of the older state has the beginning of it; one that was behind it is told all of it."""
    lost = {"a": [LostRange(4, 20)]}
    assert news({"a": 6}, lost) == [{"channel": "a", "from": 7, "to": 20, "reason": "restored"}]
    assert news({}, lost) == [{"channel": "a", "from": 4, "to": 20, "reason": "restored"}]
    assert news({"a": 20}, lost) == []


def test_a_loss_is_told_once() -> None:
    """At once, and not again by the message behind it; what is missing before it is still found by that."""
    seen = Seen()
    assert seen.arrived([("a", 1), ("a", 2)]) == []
    seen.lost(100, [("a", 5, 20)])
    assert seen.restores == 100
    assert seen.arrived([]) == [{"channel": "a", "from": 5, "to": 20, "reason": "restored"}]
    assert seen.arrived([("a", 21)]) == [{"channel": "a", "from": 3, "to": 4}]
    seen.lost(200, [("a", 22, 30)])
    assert seen.arrived([("a", 31)]) == [{"channel": "a", "from": 22, "to": 30, "reason": "restored"}]


def test_what_an_answer_says_of_losses_is_read_as_far_as_it_can_be() -> None:
    """Most say nothing; one that is not understood harms nothing."""
    assert read_losses({"messages": []}) == (0, [])
    assert read_losses({"restores": 7, "lost": [{"channel": "a", "from": 1, "to": 2}]}) == (7, [("a", 1, 2)])
    assert read_losses({"restores": 7, "lost": [{"channel": "a", "from": "1", "to": 2}]}) == (7, [])
    assert read_losses({"restores": "7"}) == (0, [])
