"""How much an outbox holds, and for whom its last places are kept.

Critical messages (a cancel, a policy, an escalation: those whose contract says so) may take every place, all others
stop short of the reserve. So an agent whose outbox was filled by reports can still call something off. Nothing is ever
evicted: what has its 202 stays, and who comes too late is told so.
"""

from dataclasses import dataclass
from typing import Final

DEAD_MAX: Final = 1_000
"""Refused sends that are kept, as many as an outbox holds by default: each of them needs a decision. With no room for
one more nothing is sent, since it might be refused; so none is ever thrown away, and the file stays bounded."""


@dataclass(frozen=True, slots=True)
class OutboxBounds:
    """`entries_max` counts the reserve in; `age_us_max` is how long an entry may surely wait."""

    entries_max: int
    critical_reserve: int
    age_us_max: int
    dead_max: int

    @property
    def normal_max(self) -> int:
        """How many entries there may be for one more that is not critical to be refused."""
        return self.entries_max - self.critical_reserve

    def admits(self, depth: int, *, critical: bool) -> bool:
        """Whether one more may come to `depth` that wait."""
        return depth < (self.entries_max if critical else self.normal_max)
