"""What of a sidecar an operator must hear of, without anybody asking: one table says when, and when it is over.

A condition is told when it is entered, again until it is over (after 5 minutes, then after twice as long, at last every
hour), and once when it has ended. What enters and what clears are apart, so that nothing is told back and forth: an
outbox is nearly full at nine tenths, and is not any more at three quarters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from shared.journal_events import (
    BAD_SIGNATURE,
    BREAKER_OPEN_TOO_LONG,
    DISK_TROUBLE,
    OUTBOX_AGING,
    OUTBOX_FULL,
    OUTBOX_NEARLY_FULL,
    OUTBOX_REFUSED,
    OUTBOX_STOPPED,
    OUTBOX_TOO_OLD,
    STORE_LOG_STUCK,
    JournalEvent,
)
from shared.times import MICROSECONDS
from sidecar.core.outbox_bounds import OutboxBounds

REPEAT_US_FIRST: Final = 300 * MICROSECONDS
REPEAT_US_MAX: Final = 3_600 * MICROSECONDS

CALM_US: Final = 60 * MICROSECONDS
"""How long a trouble that comes in single events must have stayed away to be over: one success between two failures is
no end of it."""

NEARLY_FULL, NEARLY_FULL_ENDS = 90, 75
FULL_ENDS: Final = 90
AGING, AGING_ENDS = 50, 45
TOO_OLD, TOO_OLD_ENDS = 80, 75
STOPPED_ENDS: Final = 90
"""In percent: of the places for sends that are not critical, of the age that an entry may surely reach, of the places
for refused ones."""


_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """How a sidecar is at one moment. Times are steady, in microseconds; an age is by the wall clock, as entries are.

    `reachable` is whether the last probe reached the adapter, `closed` whether the link is used, and `well` whether it
    is both and answers requests; `away_us` is for how long it has not (`sidecar/core/outage.py`), and `quiet_at_us`
    when that is over if nothing is asked.
    `bad_answer_us` and `store_failed_us` are when the last of them was, None for never; `believed` is whether an answer
    was believed since, and `store_fault` what the store fails with now. `stuck_bytes` is how much of its log cannot be
    brought into the file, of which `stuck_bytes_max` is too much.
    """

    now_us: int
    reachable: bool
    closed: bool
    well: bool
    away_us: int
    quiet_at_us: int | None
    away_us_max: int
    depth: int
    dead: int
    oldest_age_us: int | None
    bounds: OutboxBounds
    stuck_bytes_max: int
    bad_answer_us: int | None = None
    believed: bool = False
    store_fault: str | None = None
    store_failed_us: int | None = None
    stuck_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One of them. `moment_us` is when it may be entered or over by the mere passing of time, None for never.

    `under` names a graver one; while that lasts, this one is not repeated.
    """

    event: JournalEvent
    is_entered: Callable[[Facts], bool]
    is_over: Callable[[Facts], bool]
    words: Callable[[Facts], str]
    moment_us: Callable[[Facts], int | None] = lambda _: None
    under: str | None = None

    @property
    def name(self) -> str:
        """What it is called everywhere."""
        return self.event.name


@dataclass(frozen=True, slots=True)
class Active:
    """A condition that lasts: since when, when it was told last, and how often."""

    since_us: int
    told_us: int
    times: int


@dataclass(frozen=True, slots=True)
class Notice:
    """What is to be told now."""

    condition: Condition
    stage: Literal["entered", "repeated", "cleared"]
    words: str
    active: Active


@dataclass(frozen=True, slots=True)
class Step:
    """What lasts from now on, and what is to be told."""

    active: dict[str, Active]
    notices: list[Notice]


def step(active: Mapping[str, Active], facts: Facts) -> Step:
    """Hold every condition against the facts."""
    lasting: dict[str, Active] = {}
    notices: list[Notice] = []
    for condition in CONDITIONS:
        stage, after = _judge(condition, active.get(condition.name), facts, is_muted=condition.under in lasting)
        if after is not None and stage != "cleared":
            lasting[condition.name] = after
        if stage is not None and after is not None:
            notices.append(Notice(condition, stage, condition.words(facts), after))
    return Step(lasting, notices)


def due_us(active: Mapping[str, Active], facts: Facts) -> int | None:
    """When to look again if nothing happens before; None for never."""
    moments = [condition.moment_us(facts) for condition in CONDITIONS]
    moments += [
        _repeat_due_us(active[condition.name])
        for condition in CONDITIONS
        if condition.name in active and condition.under not in active
    ]
    return min((moment for moment in moments if moment is not None and moment > facts.now_us), default=None)


def repeat_us(times: int) -> int:
    """How long after the `times`-th word the next one is due."""
    return min(REPEAT_US_FIRST << min(times - 1, 10), REPEAT_US_MAX)


def _judge(
    condition: Condition, known: Active | None, facts: Facts, *, is_muted: bool
) -> tuple[Literal["entered", "repeated", "cleared"] | None, Active | None]:
    """What becomes of one condition."""
    if known is None:
        return ("entered", Active(facts.now_us, facts.now_us, 1)) if condition.is_entered(facts) else (None, None)
    if condition.is_over(facts):
        return "cleared", known
    if is_muted or facts.now_us < _repeat_due_us(known):
        return None, known
    return "repeated", Active(known.since_us, facts.now_us, known.times + 1)


def _repeat_due_us(active: Active) -> int:
    return active.told_us + repeat_us(active.times)


def _fills(facts: Facts, percent: int) -> bool:
    return facts.depth * 100 >= facts.bounds.normal_max * percent


def _age_reaches(facts: Facts, percent: int) -> bool:
    return facts.oldest_age_us is not None and facts.oldest_age_us * 100 >= facts.bounds.age_us_max * percent


def _age_moment_us(percent: int) -> Callable[[Facts], int | None]:
    def moment_us(facts: Facts) -> int | None:
        if facts.oldest_age_us is None:
            return None
        return facts.now_us + facts.bounds.age_us_max * percent // 100 - facts.oldest_age_us + 1

    return moment_us


def _calm(since_us: int | None, facts: Facts) -> bool:
    return since_us is None or facts.now_us - since_us >= CALM_US


def _calm_from_us(since_us: int | None) -> int | None:
    return None if since_us is None else since_us + CALM_US


def _away_moment_us(facts: Facts) -> int | None:
    """While the breaker is closed only requests tell more, or that there are none for long."""
    if facts.closed:
        return facts.quiet_at_us
    return facts.now_us + facts.away_us_max - facts.away_us if facts.away_us else None


def _away(facts: Facts) -> str:
    seconds = facts.away_us // MICROSECONDS
    if facts.reachable:
        return f"The adapter says that it is well, and has not answered a request for {seconds} s."
    return f"The adapter has not been reached for {seconds} s."


def _days(us: int | None) -> str:
    return f"{(us or 0) / MICROSECONDS / 86_400:.1f} days"


def _fullness(facts: Facts) -> str:
    return f"{facts.depth} sends wait, of {facts.bounds.entries_max} that may"


def _age(facts: Facts) -> str:
    return (
        f"The oldest send has waited for {_days(facts.oldest_age_us)}; up to {_days(facts.bounds.age_us_max)} are safe"
    )


CONDITIONS: Final = (
    Condition(
        BREAKER_OPEN_TOO_LONG,
        lambda facts: facts.away_us >= facts.away_us_max,
        lambda facts: facts.well,
        _away,
        _away_moment_us,
    ),
    Condition(
        OUTBOX_FULL,
        lambda facts: _fills(facts, 100),
        lambda facts: not _fills(facts, FULL_ENDS),
        lambda facts: f"{_fullness(facts)}; further ones are refused.",
    ),
    Condition(
        OUTBOX_NEARLY_FULL,
        lambda facts: _fills(facts, NEARLY_FULL),
        lambda facts: not _fills(facts, NEARLY_FULL_ENDS),
        lambda facts: f"{_fullness(facts)}.",
        under=OUTBOX_FULL.name,
    ),
    Condition(
        OUTBOX_TOO_OLD,
        lambda facts: _age_reaches(facts, TOO_OLD),
        lambda facts: not _age_reaches(facts, TOO_OLD_ENDS),
        lambda facts: f"{_age(facts)}. After that the adapter may have forgotten whether it has it.",
        _age_moment_us(TOO_OLD),
    ),
    Condition(
        OUTBOX_AGING,
        lambda facts: _age_reaches(facts, AGING),
        lambda facts: not _age_reaches(facts, AGING_ENDS),
        lambda facts: f"{_age(facts)}.",
        _age_moment_us(AGING),
        under=OUTBOX_TOO_OLD.name,
    ),
    Condition(
        OUTBOX_STOPPED,
        lambda facts: facts.dead >= facts.bounds.dead_max,
        lambda facts: facts.dead * 100 <= facts.bounds.dead_max * STOPPED_ENDS,
        lambda facts: f"{facts.dead} refused sends are kept, and at {facts.bounds.dead_max} nothing more is sent.",
    ),
    Condition(
        OUTBOX_REFUSED,
        lambda facts: facts.dead > 0,
        lambda facts: facts.dead == 0,
        lambda facts: f"Sends that the adapter refused after they had waited: {facts.dead}.",
        under=OUTBOX_STOPPED.name,
    ),
    Condition(
        BAD_SIGNATURE,
        lambda facts: facts.bad_answer_us is not None and not _calm(facts.bad_answer_us, facts),
        lambda facts: facts.believed and _calm(facts.bad_answer_us, facts),
        lambda _: "An answer in the adapter's name was not signed with our key; it was not believed.",
        lambda facts: _calm_from_us(facts.bad_answer_us) if facts.believed else None,
    ),
    Condition(
        DISK_TROUBLE,
        lambda facts: facts.store_fault is not None,
        lambda facts: facts.store_fault is None and _calm(facts.store_failed_us, facts),
        lambda facts: f"The sidecar's own store fails: {facts.store_fault or 'not just now'}.",
        lambda facts: _calm_from_us(facts.store_failed_us) if facts.store_fault is None else None,
    ),
    Condition(
        STORE_LOG_STUCK,
        lambda facts: facts.stuck_bytes >= facts.stuck_bytes_max,
        lambda facts: facts.stuck_bytes * 2 < facts.stuck_bytes_max,
        lambda facts: f"{facts.stuck_bytes / _MEBIBYTE:.1f} MiB of the store's log cannot be brought into its file.",
        lambda facts: facts.now_us + CALM_US if facts.stuck_bytes else None,  # nobody else would notice the end of it
    ),
)
"""All there are, each called as the event that tells of it; the graver one of two comes first."""
