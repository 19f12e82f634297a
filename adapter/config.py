"""The numbers of the file, as the exchange wants them."""

import random
import secrets

from adapter.core.admission import QueueLimits
from adapter.core.policy import EscalationLimits, Policy
from adapter.core.rates import Rate
from adapter.core.retention import Ages, RetentionPolicy
from adapter.core.retry import RetryPolicy
from shared.config import Config
from shared.escalation import Escalation
from shared.retention import Days, Retention
from shared.times import MICROSECONDS


def policy_of(config: Config) -> Policy:
    """Seconds become microseconds; chance comes from the system."""
    limits = config.limits
    return Policy(
        lease_us=int(limits.lease_seconds * MICROSECONDS),
        retry=RetryPolicy(
            limits.attempts_max,
            int(limits.retry_base_seconds * MICROSECONDS),
            int(limits.retry_cap_seconds * MICROSECONDS),
        ),
        queue=QueueLimits(limits.queue_max, limits.queue_critical_reserve),
        rates={name: Rate(rate.per_second, rate.burst) for name, rate in config.rate_classes.items()},
        alert_window_us=int(limits.alert_window_seconds * MICROSECONDS),
        retention=_retention_of(config.retention),
        escalation=_escalation_of(config.escalation),
        jitter=random.SystemRandom().random,
        nonce=lambda: secrets.token_hex(4),
    )


def _retention_of(retention: Retention) -> RetentionPolicy:
    return RetentionPolicy(
        default=_ages(*retention.days("")),
        channels={channel: _ages(*retention.days(channel)) for channel in retention.channels},
        check_us=int(retention.check_seconds * MICROSECONDS),
        agree_us=int(retention.clock_trust_hours * 3_600 * MICROSECONDS),
    )


def _ages(message_days: Days, contract_days: Days) -> Ages:
    return Ages(_age_us(message_days), _age_us(contract_days))


def _age_us(days: Days) -> int | None:
    return None if days == "forever" else int(days * 86_400 * MICROSECONDS)


def _escalation_of(escalation: Escalation) -> EscalationLimits:
    return EscalationLimits(
        repeats=escalation.repeats,
        window_us=int(escalation.window_seconds * MICROSECONDS),
        dead_letters_max=escalation.dead_letters_max,
        absence_us=int(escalation.absence_seconds * MICROSECONDS),
        absence_governor_us=int(escalation.absence_governor_seconds * MICROSECONDS),
    )
