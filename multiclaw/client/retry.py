"""When to try again. Arithmetic only; clock and chance are handed in."""

from dataclasses import dataclass
from typing import Final

_EXPONENT_MAX: Final = 16
"""Doublings beyond this exceed any cap; without the bound, a float would overflow after a thousand failures."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounded exponential backoff with full jitter. All in seconds.

    `retry_seconds` is how long new attempts are begun after the first one; `base` and `cap` bound one wait. 50 ms
    catches a connection lost to a restart; 2 s keeps hundreds of waiting agents from crowding a sidecar.
    """

    retry_seconds: float = 30.0
    base: float = 0.05
    cap: float = 2.0

    def delay(self, failures: int, chance: float) -> float:
        """The wait after the given number of failures (from 1), for a `chance` in [0, 1)."""
        return min(self.cap, self.base * 2.0 ** min(failures - 1, _EXPONENT_MAX)) * chance

    def wait(self, failures: int, chance: float, elapsed: float, retry_after: float | None) -> float | None:
        """How long to wait before the next attempt, or None to give up.

        `retry_after` is the server's word and is never undercut. A wait of our own is shortened so that the last
        attempt falls on the end of the budget; one that the server asked for and that is too long ends it at once.
        """
        left = self.retry_seconds - elapsed
        if left <= 0 or (retry_after or 0.0) > left:
            return None
        return min(left, max(self.delay(failures, chance), retry_after or 0.0))
