"""What restores and repairs of the store have cost, and where numbers go on after one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from shared.lost_ranges import LostRange

UNSURE_NUMBERS: Final = 1_000_000
"""Passed over on top where nothing tells which numbers were given: a day of the busiest deployment that is planned for.
"""


class Jump(NamedTuple):
    """A state's newest message, and the first number that nobody can have been given; `counted` is false where nothing
    vouches for what it has counted in its channels.
    """

    last_message_id: int
    end: int
    counted: bool = True

    @property
    def by(self) -> int:
        """How many numbers each channel passes over.

        Numbers of messages are global and each message takes one number of its channel, so none can have gone on by
        more than all of them together.
        """
        return max(0, self.end - 1 - self.last_message_id)

    @property
    def floor(self) -> int:
        """Each channel goes on behind this in any case: for the same reason none has come further than all messages."""
        return 0 if self.counted else self.end - 1

    @classmethod
    def over_nothing(cls, last_message_id: int) -> Self:
        """Of a state that lacks nothing behind its end. It takes a number of a message all the same, as its name."""
        return cls(last_message_id + 1, last_message_id + 2)


def end_of_numbers(state: int, reserved_end: int | None, seen: int) -> int:
    """The first number of a message that nobody can have been given, when an older state ends at `state`.

    `reserved_end` is what was made durable apart from the store, and `seen` the newest that is known from elsewhere.
    One more than would do, so that it differs from that of every earlier restore that anybody has heard of: it is the
    name of this one.
    """
    if reserved_end is not None:
        return max(reserved_end, seen + 1, state + 1) + 1
    return max(seen, state) + 2 + UNSURE_NUMBERS


@dataclass(frozen=True, slots=True)
class Losses:
    """All of them. `newest` names the last restore or repair by the first number after it, 0 before the first;
    `as_of_us` is the state that it put in place, wall time; `base` is behind which sequence a channel begins that comes
    into being now. `ranges` are those of each channel, each with the restore or repair that it comes from.
    """

    newest: int = 0
    as_of_us: int = 0
    base: int = 0
    ranges: Mapping[str, tuple[tuple[int, LostRange], ...]] = field(default_factory=dict)

    def of(self, channel: str) -> list[LostRange]:
        """Those of a channel."""
        return [lost for _, lost in self.ranges.get(channel, ())]

    def since(self, restore: int) -> dict[str, list[LostRange]]:
        """Those that came after a restore, by channel."""
        newer = {channel: [lost for by, lost in all_ if by > restore] for channel, all_ in self.ranges.items()}
        return {channel: lost for channel, lost in newer.items() if lost}


NO_LOSSES: Final = Losses()
