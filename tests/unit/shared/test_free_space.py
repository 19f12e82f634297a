"""When a file is made smaller, and by how much."""

import pytest

from shared.free_space import pages_to_give_back


@pytest.mark.parametrize(
    ("pages", "free", "given"),
    [
        (0, 0, 0),
        (1_000_000, 249_999, 0),  # less than a quarter: it will be used again
        (4_000, 1_000, 700),  # a quarter: all but a tenth of what stays in use
        (100_000, 90_000, 89_000),
        (1_200, 999, 0),  # too little to matter, however large its share
        (1_000, 1_000, 1_000),
    ],
)
def test_much_that_is_free_is_given_back_but_a_reserve(pages: int, free: int, given: int) -> None:
    """So a store that loses as much as it gains is left alone, and one that gave back does not at once again."""
    assert pages_to_give_back(pages, free) == given
    assert pages_to_give_back(pages - given, free - given) == 0 or given == 0
