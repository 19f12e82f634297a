"""An entry of the journal as values, and what makes it the same entry wherever it is found again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_CURSOR: Final = re.compile(r"s=[0-9a-f]+;i=[0-9a-f]+;b=([0-9a-f]+);m=([0-9a-f]+);t=([0-9a-f]+);x=([0-9a-f]+)")
"""As journald writes it: the file's sequence, the number in it, boot, monotonic and wall time, and a hash of the data
(sd_journal_get_cursor(3))."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the journal: that of an entry, which need not be one of ours. The time is in microseconds."""

    cursor: str
    time_us: int

    @property
    def identity(self) -> str:
        """See `identity`."""
        return identity(self.cursor)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry. A field that stands in it more than once has a list of its values."""

    place: Place
    fields: Mapping[str, str | list[str]]

    def one(self, name: str) -> str | None:
        """The value of a field that stands there once. One that comes twice could be read either way, so it is none."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        value = self.fields.get(name, [])
        return [value] if isinstance(value, str) else value


def identity(cursor: str) -> str:
    """What stays the same of an entry that is copied to another file, as a flush from memory to disk does.

    Boot, both times and the hash; file and number change. Raises `ValueError` for what is no cursor.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError(f"{cursor!r} is no cursor of a journal")
    return "b={};m={};t={};x={}".format(*found.groups())


def place_of(cursor: str) -> Place:
    """The place that a cursor names; raises `ValueError` for what is none."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError(f"{cursor!r} is no cursor of a journal")
    return Place(cursor, int(found[3], 16))
