"""The numbers of a deployment and the time of a group, as the exchange is given them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adapter.core.admission import QueueLimits
from adapter.core.rates import Rate
from adapter.core.retention import RetentionPolicy
from adapter.core.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class EscalationLimits:
    """When what repeats or lasts goes to the Human Governor, and how many open dead letters are too many.

    An absence is told after `absence_us`, and told to the Governor after `absence_governor_us`.
    """

    repeats: int
    window_us: int
    dead_letters_max: int
    absence_us: int
    absence_governor_us: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers of a deployment, and chance: `jitter` in [0, 1), `nonce` a fresh short text.

    `rates` are by class. An `alert_window_us` of 0 means that nobody is told of anything.
    """

    lease_us: int
    retry: RetryPolicy
    queue: QueueLimits
    rates: Mapping[str, Rate]
    alert_window_us: int
    retention: RetentionPolicy
    escalation: EscalationLimits
    jitter: Callable[[], float]
    nonce: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Now:
    """The two clocks, read once per group."""

    wall_us: int
    steady_us: int
