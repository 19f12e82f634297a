"""What somebody must hear of: the kinds of alarm, what makes two of them the same, and the table of who hears of it.

Alarms are counted (`adapter/core/tallies.py`), and told in the adapter's own messages (`adapter/core/announcing.py`).
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple


class AlarmKind(StrEnum):
    """What has happened. The words are stored."""

    DEAD_LETTER = "dead-letter"  # a delivery died; the reason is why
    DEAD_LETTERS_MAX = "dead-letters-max"  # more of them are open than anybody will look through
    QUEUE_FULL = "queue-full"  # a critical send was refused, even the reserve being used up
    RATE_LIMIT = "rate-limit"  # a sender is faster than it may be; the reason is the class of its messages
    ABSENCE = "absence"  # messages wait, and their agent does not poll
    LONG_ABSENCE = "long-absence"  # the same, and whoever was told of it has not mended it
    CLOCK = "clock"  # the wall clock has jumped; the agent is the adapter
    STORE = "store"  # the store is damaged, was mended, or its log is stuck; the agent is the adapter
    BACKUP = "backup"  # no backup was made; the agent is the adapter
    RESTORE = "restore"  # an older state was put in the place of the store; the agent is the adapter
    REPAIR = "repair"  # a human accepted what a repair has lost; the agent is the adapter
    TOPOLOGY = "topology"  # a change of members waits for a human; the agent is who proposed it
    SCHEDULE = "schedule"  # a scheduled message could not be sent when its time came; the agent is its sender


class Alarm(NamedTuple):
    """One kind of thing about one agent for one reason: alarms that agree in all three are counted together."""

    kind: AlarmKind
    agent: str
    reason: str


class Audience(Enum):
    """Who is told."""

    PLATFORM = auto()  # the members of `platform`
    ORCHESTRATORS = auto()  # each agent of that role, on its direct channel
    GOVERNOR = auto()
    LEADERS = auto()  # the orchestrators and the Governor


@dataclass(frozen=True, slots=True)
class Rule:
    """As which contract an alarm is told, to whom first, and in which words; they may name agent, reason and count.

    `at_once` tells the first one without a window. What the Governor is not told first reaches it when it repeats.
    What `storms` and is the Governor's is told once in the window of escalations, with their number.
    """

    contract: str
    audience: Audience
    summary: str
    at_once: bool = False
    storms: bool = False


RULES: Final[dict[AlarmKind, Rule]] = {
    AlarmKind.DEAD_LETTER: Rule(
        "alert.dead-letter/1", Audience.PLATFORM, "Messages for {agent} that are dead ({reason}): {count}."
    ),
    AlarmKind.DEAD_LETTERS_MAX: Rule(
        "alert.dead-letter/1", Audience.GOVERNOR,
        "Open dead letters: {reason}. All are kept; they are to be replayed or resolved.", at_once=True,
    ),
    AlarmKind.QUEUE_FULL: Rule(
        "alert.queue/1", Audience.GOVERNOR, "Critical messages for {agent} that were refused ({reason}): {count}.",
        at_once=True, storms=True,
    ),
    AlarmKind.RATE_LIMIT: Rule(
        "alert.rate/1", Audience.PLATFORM,
        "{agent} sends more messages of the class {reason} than it may; its sidecar slows it down.",
    ),
    AlarmKind.ABSENCE: Rule(
        "alert.absence/1", Audience.ORCHESTRATORS, "Messages wait for {agent}, which does not poll ({reason}).",
        at_once=True,
    ),
    AlarmKind.LONG_ABSENCE: Rule(
        "alert.absence/1", Audience.GOVERNOR, "Messages wait for {agent}, which does not poll ({reason}).",
        at_once=True,
    ),
    AlarmKind.CLOCK: Rule("alert.clock/1", Audience.GOVERNOR, "The wall clock has jumped ({reason}).", at_once=True),
    AlarmKind.STORE: Rule("alert.store/1", Audience.GOVERNOR, "The store: {reason}.", at_once=True),
    AlarmKind.BACKUP: Rule(
        "alert.backup/1", Audience.GOVERNOR,
        "No backup of the store was made ({reason}): {count} attempts. It is tried again: multiclaw status.",
        at_once=True, storms=True,
    ),
    AlarmKind.RESTORE: Rule(
        "alert.restore/1", Audience.LEADERS,
        "The store was put back to {reason}. What was sent after it is lost, and named in `lost`; what was settled "
        "after it comes again.", at_once=True,
    ),
    AlarmKind.REPAIR: Rule(
        "alert.restore/1", Audience.LEADERS,
        "The store was damaged, and is repaired with losses: {reason}. All numbers that are lost are in `lost`; what "
        "was settled may come again.", at_once=True,
    ),
    AlarmKind.TOPOLOGY: Rule(
        "alert.topology/1", Audience.GOVERNOR, "{agent} proposes a change of the topology ({reason}).", at_once=True
    ),
    AlarmKind.SCHEDULE: Rule(
        "alert.schedule/1", Audience.PLATFORM, "Scheduled messages of {agent} that were not sent ({reason}): {count}."
    ),
}  # fmt: skip
