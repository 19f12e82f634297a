"""What somebody must hear of, whatever it is: the kinds of alarm, and what makes two of them the same."""

from enum import StrEnum
from typing import NamedTuple


class AlarmKind(StrEnum):
    """What has happened. The words are stored."""

    DEAD_LETTER = "dead-letter"  # a delivery died; the reason is why
    QUEUE_FULL = "queue-full"  # a critical send was refused, even the reserve being used up
    RATE_LIMIT = "rate-limit"  # a sender is faster than it may be; the reason is the class of its messages
    ABSENCE = "absence"  # messages wait, and their agent does not poll
    CLOCK = "clock"  # the wall clock has jumped; the agent is the adapter
    TOPOLOGY = "topology"  # a change of members waits for a human; the agent is who proposed it
    SCHEDULE = "schedule"  # a scheduled message could not be sent when its time came; the agent is its sender


class Alarm(NamedTuple):
    """One kind of thing about one agent for one reason: alarms that agree in all three are counted together."""

    kind: AlarmKind
    agent: str
    reason: str
