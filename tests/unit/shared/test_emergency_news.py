"""Reading a file that grows and is put aside."""

import pytest

from shared.emergency_news import FilePlace, Section, sections, whole_lines

PRESENT, ASIDE = FilePlace(1, 100), FilePlace(2, 500)


@pytest.mark.parametrize(
    ("last", "present", "aside", "wanted", "missed"),
    [
        (None, PRESENT, None, [(False, 0)], False),
        (None, PRESENT, ASIDE, [(True, 0), (False, 0)], False),
        (FilePlace(1, 40), PRESENT, ASIDE, [(False, 40)], False),
        (FilePlace(1, 140), PRESENT, None, [(False, 0)], False),
        (FilePlace(2, 400), PRESENT, ASIDE, [(True, 400), (False, 0)], False),
        (FilePlace(2, 400), None, ASIDE, [(True, 400)], False),
        (FilePlace(3, 400), PRESENT, ASIDE, [(True, 0), (False, 0)], True),
        (FilePlace(3, 0), PRESENT, ASIDE, [(True, 0), (False, 0)], False),
    ],
    ids=["first", "first-of-two", "grown", "cut", "put-aside", "only-aside", "put-away", "put-away-unread"],
)
def test_every_line_is_read_once(last, present, aside, wanted, missed) -> None:
    """From the last place on, through the file that was put aside; whatever may have been missed is known."""
    expected = [Section(at_aside, offset) for at_aside, offset in wanted]
    assert sections(last, present, aside) == (expected, missed)


@pytest.mark.parametrize(
    ("data", "lines", "length"),
    [(b"", [], 0), (b"a\nb\n", [b"a", b"b"], 4), (b"a\nhal", [b"a"], 2), (b"hal", [], 0), (b"\n\na\n", [b"a"], 4)],
)
def test_a_line_counts_once_it_has_ended(data, lines, length) -> None:
    """What is being written is read when it is whole."""
    assert whole_lines(data) == (lines, length)
