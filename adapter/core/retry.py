"""When a failed delivery may be tried again: exponential backoff with full jitter and a cap."""

from dataclasses import dataclass
from typing import Final

_DOUBLINGS_MAX: Final = 62
"""Beyond this the cap has long been reached; without a bound a million failures would overflow."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts_max` failures in all; delays in microseconds."""

    attempts_max: int
    base_us: int
    cap_us: int

    def is_spent(self, failures: int) -> bool:
        """Whether no attempt is left."""
        return failures >= self.attempts_max

    def delay_us(self, failures: int, jitter: float) -> int:
        """The wait after the `failures`-th failure; `jitter` in [0, 1] picks a point of the whole range."""
        ceiling = min(self.cap_us, self.base_us << min(max(failures - 1, 0), _DOUBLINGS_MAX))
        return int(ceiling * jitter)
