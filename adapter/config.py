"""The numbers of the file, as the exchange wants them."""

import random
import secrets

from adapter.core.admission import QueueLimits
from adapter.core.policy import Policy
from adapter.core.retry import RetryPolicy
from shared.config import Limits
from shared.times import MICROSECONDS


def policy_of(limits: Limits) -> Policy:
    """Seconds become microseconds; chance comes from the system."""
    return Policy(
        lease_us=int(limits.lease_seconds * MICROSECONDS),
        retry=RetryPolicy(
            limits.attempts_max,
            int(limits.retry_base_seconds * MICROSECONDS),
            int(limits.retry_cap_seconds * MICROSECONDS),
        ),
        queue=QueueLimits(limits.queue_max, limits.queue_critical_reserve),
        alert_window_us=int(limits.alert_window_seconds * MICROSECONDS),
        jitter=random.SystemRandom().random,
        nonce=lambda: secrets.token_hex(4),
    )
