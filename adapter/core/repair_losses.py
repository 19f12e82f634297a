"""Whether anything is lost of a store that was put together from what could be read and from a backup. Pure.

Numbers of messages are contiguous from 1 over all channels, sequences within each. One that is not there was forgotten
by retention, or it is lost; absence alone does not tell. What tells is where nothing could be read: all that is missing
outside of these holes was not there before the damage either. And a backup is complete: what it does not hold of the
messages up to its newest had been forgotten when it was made.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from shared.lost_ranges import LostRange as Recorded
from shared.lost_ranges import explain

RANGES_MAX: Final = 100
"""Named in full; of more only their number."""


class Hole(NamedTuple):
    """Numbers of messages of which nothing could be read, the last one included; None where no end is known."""

    first: int
    last: int | None

    def reaches(self, after: int, before: int | None) -> bool:
        """Whether it has a number between these two, of which None is beyond all."""
        ends = [end for end in (self.last, None if before is None else before - 1) if end is not None]
        return not ends or max(self.first, after + 1) <= min(ends)


class Missing(NamedTuple):
    """Sequences of a channel that no message has, between the messages `after_id` and `before_id`; None: to its end."""

    channel: str
    first: int
    last: int
    after_id: int
    before_id: int | None


class LostRange(NamedTuple):
    """Sequences that were given and have no message any more; None where it is not known how many."""

    channel: str
    first: int
    last: int | None

    def __str__(self) -> str:
        """As people read it."""
        if self.last is None:
            return f"{self.channel} from {self.first} on"
        return f"{self.channel} {self.first}" + (f" to {self.last}" if self.last > self.first else "")


class Holes:
    """Numbers that could not be read, gathered in any order."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._open: int | None = None

    def add(self, number: int) -> None:
        """This one could not be read."""
        self._numbers.add(number)

    def remove(self, number: int) -> None:
        """It was found elsewhere."""
        self._numbers.discard(number)

    def open_from(self, number: int) -> None:
        """From here on nothing is known."""
        self._open = number if self._open is None else min(self._open, number)

    @property
    def open(self) -> int | None:
        """From where on nothing is known, or None."""
        return self._open

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self) -> list[int]:
        """In order."""
        return sorted(self._numbers)

    def beyond(self, accounted: int) -> list[Hole]:
        """As ranges, without what is at or below `accounted`."""
        holes: list[Hole] = []
        for number in sorted(each for each in self._numbers if each > accounted):
            if holes and holes[-1].last == number - 1:
                holes[-1] = Hole(holes[-1].first, number)
            else:
                holes.append(Hole(number, number))
        if self._open is not None:
            holes.append(Hole(max(self._open, accounted + 1), None))
        return holes


@dataclass(frozen=True, slots=True)
class Losses:
    """What would be lost: ranges of messages, and other things in words."""

    ranges: Sequence[LostRange] = ()
    others: Sequence[str] = ()

    @property
    def nothing(self) -> bool:
        """Whether all is there."""
        return not self.ranges and not self.others

    def __str__(self) -> str:
        """For a human, in one line."""
        named = [str(each) for each in self.ranges[:RANGES_MAX]]
        more = [f"and {len(self.ranges) - RANGES_MAX} ranges more"] if len(self.ranges) > RANGES_MAX else []
        return "; ".join([*named, *more, *self.others]) or "nothing"


def unrecorded(missing: Iterable[Missing], recorded: Mapping[str, Sequence[Recorded]]) -> Iterator[Missing]:
    """Without what was lost before, and is recorded by channel."""
    for each in missing:
        for part in explain(each.first, each.last, recorded.get(each.channel, ())):
            if part.reason is None:
                yield each._replace(first=part.first, last=part.last)


def lost_ranges(missing: Iterable[Missing], holes: Sequence[Hole]) -> list[LostRange]:
    """Those of the missing sequences that may stand in a hole; for nothing else can say what had stood there."""
    return [
        LostRange(each.channel, each.first, each.last)
        for each in (missing if holes else ())
        if any(hole.reaches(each.after_id, each.before_id) for hole in holes)
    ]
