"""Whether a recipient's queue takes one more delivery, and at whose cost (promise 7)."""

from dataclasses import dataclass
from enum import Enum, auto


class Verdict(Enum):
    """What becomes of the newcomer, or of the oldest for its sake."""

    ADMIT = auto()
    EVICT_OLDEST = auto()
    DEAD_ON_ARRIVAL = auto()
    REFUSE_SEND = auto()


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Live deliveries (queued or leased) per recipient, and how many critical ones may stand above that."""

    queue_max: int
    critical_reserve: int

    def admit(self, depth: int, *, critical: bool, evictable: bool) -> Verdict:
        """The verdict for one newcomer to a queue of `depth`, where something evictable stands or not.

        An eviction keeps the depth, so the reserve is used only while nothing of normal priority is queued.
        """
        if depth < self.queue_max:
            return Verdict.ADMIT
        if evictable:
            return Verdict.EVICT_OLDEST
        if not critical:
            return Verdict.DEAD_ON_ARRIVAL
        return Verdict.ADMIT if depth < self.queue_max + self.critical_reserve else Verdict.REFUSE_SEND
