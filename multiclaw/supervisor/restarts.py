"""When an ended child is started again. Pure: what ended and how long it lived go in, a decision comes out."""

from dataclasses import dataclass
from typing import Final

from shared.config import EXIT_CONFIGURATION

DELAY_SECONDS_MIN: Final = 0.2
"""Short enough that a killed adapter serves again well inside the ten seconds of promise 10."""

DELAY_SECONDS_MAX: Final = 5.0
"""A person who watches sees the next try soon; a machine that starts in vain is busy for a tenth of its time."""

STEADY_SECONDS: Final = 10.0
"""A child that lived this long had started well: the next delay begins anew."""

_DOUBLINGS_MAX: Final = 10  # beyond the cap already; keeps the power small for a child that ends for weeks


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a child was started again, and how many of its last lives were short."""

    total: int = 0
    short_lives: int = 0


@dataclass(frozen=True, slots=True)
class Again:
    """Start it again after `delay_seconds`."""

    restarts: Restarts
    delay_seconds: float


def after_end(restarts: Restarts, status: int, lived_seconds: float) -> Again | None:
    """What follows an end with `status`; `None` where the configuration is at fault and a restart would not mend it."""
    if status == EXIT_CONFIGURATION:
        return None
    short_lives = 0 if lived_seconds >= STEADY_SECONDS else restarts.short_lives
    delay = min(DELAY_SECONDS_MAX, DELAY_SECONDS_MIN * 2 ** min(short_lives, _DOUBLINGS_MAX))
    return Again(Restarts(restarts.total + 1, short_lives + 1), delay)
