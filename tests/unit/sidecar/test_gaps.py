"""Gaps: passed over once, told once."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.gaps import advance


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
