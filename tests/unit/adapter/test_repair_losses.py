"""What is lost of a store that was put together again: what stands in a hole, and nothing else."""

import random

import pytest

from adapter.core.repair_losses import RANGES_MAX, Hole, Holes, Losses, LostRange, Missing, lost_ranges, unrecorded
from shared.lost_ranges import LostRange as Recorded


def holes_of(*numbers):
    """Holes with these numbers."""
    holes = Holes()
    for number in numbers:
        holes.add(number)
    return holes


@pytest.mark.parametrize(
    ("hole", "after", "before", "reaches"),
    [
        (Hole(5, 5), 4, 6, True), (Hole(5, 5), 5, 7, False), (Hole(5, 5), 3, 5, False), (Hole(5, 9), 8, 10, True),
        (Hole(5, 9), 9, None, False), (Hole(5, 9), 8, None, True), (Hole(5, None), 3, 5, False),
        (Hole(5, None), 3, 6, True), (Hole(5, None), 90, None, True), (Hole(5, None), 90, 92, True),
        (Hole(5, None), 90, 91, False),
    ],
)  # fmt: skip
def test_a_hole_reaches_what_has_a_number_in_it(hole, after, before, reaches):
    """Both neighbours stand, so only numbers between them count."""
    assert hole.reaches(after, before) is reaches


def test_what_was_forgotten_is_not_lost():
    """Sequences that are missing where all could be read were missing before."""
    missing = [Missing("a", 1, 4, 0, 5), Missing("a", 6, 6, 5, 8), Missing("b", 1, 2, 0, None)]
    assert lost_ranges(missing, []) == []
    assert lost_ranges(missing, holes_of(9).beyond(0)) == [LostRange("b", 1, 2)]
    assert lost_ranges(missing, holes_of(6, 7).beyond(0)) == [LostRange("a", 6, 6), LostRange("b", 1, 2)]


def test_a_backup_accounts_for_all_up_to_its_newest():
    """What it does not hold was forgotten when it was made."""
    holes = holes_of(3, 4, 5, 9)
    assert holes.beyond(4) == [Hole(5, 5), Hole(9, 9)]
    assert lost_ranges([Missing("a", 2, 2, 2, 5)], holes.beyond(4)) == []
    assert lost_ranges([Missing("a", 2, 2, 2, 6)], holes.beyond(4)) == [LostRange("a", 2, 2)]


def test_what_was_lost_before_is_not_lost_again():
    """A jump leaves a gap in the numbers of messages too, and a hole may reach into it."""
    recorded = {"a": [Recorded(3, 8_000)], "b": [Recorded(1, 9)]}
    missing = [Missing("a", 2, 8_001, 4, 9_000), Missing("b", 1, 9, 0, 5), Missing("c", 1, 1, 0, 5)]
    assert list(unrecorded(missing, recorded)) == [
        Missing("a", 2, 2, 4, 9_000), Missing("a", 8_001, 8_001, 4, 9_000), Missing("c", 1, 1, 0, 5),
    ]  # fmt: skip


def test_an_open_hole_has_no_end():
    """From where on nothing is known, the earliest counts, though not below what is accounted for."""
    holes = holes_of(2)
    holes.open_from(9)
    holes.open_from(7)
    assert (holes.beyond(0), holes.beyond(20)) == ([Hole(2, 2), Hole(7, None)], [Hole(21, None)])


def test_what_was_found_elsewhere_is_no_hole():
    """Nor is what was never one."""
    holes = holes_of(2, 3)
    holes.remove(2)
    holes.remove(8)
    assert (holes.numbers(), 3 in holes, 2 in holes, len(holes)) == ([3], True, False, 1)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_lost_goes_unnamed_and_nothing_is_named_that_could_be_read(seed):
    """Messages of a few channels, some forgotten, some in holes: each lost one is in a range, and each range has a hole
    between its neighbours."""
    rng, next_sequence = random.Random(seed), dict.fromkeys("abc", 1)
    there, lost, present = {}, [], {name: [(0, 0)] for name in "abc"}
    for number in range(1, 200):
        name = rng.choice("abc")
        there[number] = name, next_sequence[name]
        next_sequence[name] += 1
        fate = rng.choice(("kept", "kept", "forgotten", "hole"))
        if fate == "kept":
            present[name].append((there[number][1], number))
        elif fate == "hole":
            lost.append(number)
    holes = holes_of(*lost).beyond(0)
    missing = []
    for name, places in present.items():
        ends = [*places[1:], (next_sequence[name], None)]
        missing += [
            Missing(name, sequence + 1, end - 1, number, before)
            for (sequence, number), (end, before) in zip(places, ends, strict=True)
            if end > sequence + 1
        ]
    ranges = lost_ranges(missing, holes)
    for number in lost:
        name, sequence = there[number]
        assert any(each.channel == name and each.first <= sequence <= each.last for each in ranges)
    named = {(each.channel, each.first) for each in ranges}
    for each in missing:
        between = set(lost) & set(range(each.after_id + 1, each.before_id or 200))
        assert ((each.channel, each.first) in named) == bool(between)


def test_losses_in_words():
    """Ranges first, the other things after them; nothing is a word too."""
    assert str(Losses()) == "nothing"
    assert Losses().nothing
    told = Losses([LostRange("a", 2, 2), LostRange("b", 3, 9), LostRange("c", 4, None)], ["the table x"])
    assert str(told) == "a 2; b 3 to 9; c from 4 on; the table x"
    assert not told.nothing
    assert str(Losses([LostRange("a", 1, 1)] * (RANGES_MAX + 3))).endswith("; and 3 ranges more")
