"""What identifies an entry of a journal."""

import pytest

from multiclaw.watch.core.entry import identity, place_of
from tests.support.journal_entries import entry, place


def test_a_copy_in_another_file_is_the_same_entry() -> None:
    """A flush from memory to disk gives an entry another file and number; its identity stays."""
    assert identity(place(7, file="a").cursor) == identity(place(7, file="b").cursor)
    assert identity(place(7).cursor) != identity(place(8).cursor)


def test_a_cursor_tells_its_time() -> None:
    """The time of a place is the wall time in its cursor."""
    assert place_of(place(7).cursor) == place(7)


@pytest.mark.parametrize("text", ["", "garbage", "s=1;i=2", place(1).cursor + "x", place(1).cursor[:-1] + "\n"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """A cursor that was cut or changed is not taken for another one."""
    with pytest.raises(ValueError, match="no cursor"):
        identity(text)
    with pytest.raises(ValueError, match="no cursor"):
        place_of(text)


def test_a_field_that_comes_twice_has_no_value() -> None:
    """It could be read either way; all of its values can be asked for."""
    one = entry(MULTICLAW_KIND=["a", "b"])
    assert (one.one("MULTICLAW_KIND"), one.all("MULTICLAW_KIND")) == (None, ["a", "b"])
    assert (one.one("ABSENT"), one.all("ABSENT"), one.all("PRIORITY")) == (None, [], ["2"])
