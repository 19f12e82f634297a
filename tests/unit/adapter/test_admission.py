"""A bounded queue: who is let in, and at whose cost (promise 7, rabbitmq-server#2313)."""

import pytest

from adapter.core.admission import QueueLimits, Verdict

LIMITS = QueueLimits(queue_max=5, critical_reserve=2)


@pytest.mark.parametrize(
    ("depth", "critical", "evictable", "verdict"),
    [
        (0, False, False, Verdict.ADMIT),
        (4, False, True, Verdict.ADMIT),
        (4, True, False, Verdict.ADMIT),
        (5, False, True, Verdict.EVICT_OLDEST),
        (5, True, True, Verdict.EVICT_OLDEST),
        (5, False, False, Verdict.DEAD_ON_ARRIVAL),
        (5, True, False, Verdict.ADMIT),
        (6, True, False, Verdict.ADMIT),
        (7, True, False, Verdict.REFUSE_SEND),
        (7, False, False, Verdict.DEAD_ON_ARRIVAL),
        (6, True, True, Verdict.EVICT_OLDEST),
        (7, True, True, Verdict.EVICT_OLDEST),
        (6, False, True, Verdict.EVICT_OLDEST),
    ],
)
def test_the_verdict(depth, critical, evictable, verdict):
    """The reserve is for critical messages, and only while nothing of normal priority can make room."""
    assert LIMITS.admit(depth, critical=critical, evictable=evictable) is verdict
