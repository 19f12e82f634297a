"""How often each alarm was raised, when it is told next, and when its repetition goes to the Human Governor.

The first alarm opens a window; when it ends, one message tells how many there were (promise 6). A pattern is `repeats`
of the same alarm within the window of the escalation: the Governor is told of it once in such a window. Tallies are
stored with what raised the alarms, so that a crash loses neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from adapter.core.alarms import RULES, Alarm, Audience
from adapter.core.policy import EscalationLimits, Now


@dataclass(slots=True)
class Tally:
    """One alarm: how often since its first audience was told, and since the present pattern began.

    `untold_since_us` and `since_us` are wall time. `recent` are the steady times of the newest that a pattern is made
    of, and `escalated_us` is when the Governor was told last, by the same clock.
    """

    untold: int = 0
    untold_since_us: int = 0
    total: int = 0
    since_us: int = 0
    recent: list[int] = field(default_factory=list)
    escalated_us: int | None = None

    def is_over(self, now_us: int, window_us: int) -> bool:
        """Whether what comes next begins a pattern of its own."""
        return not self.recent or self.recent[-1] + window_us <= now_us

    def is_spent(self, now_us: int, window_us: int) -> bool:
        """Whether nothing that is still to come depends on it."""
        is_quiet = self.escalated_us is None or self.escalated_us + window_us <= now_us
        return not self.untold and is_quiet and self.is_over(now_us, window_us)


@dataclass(frozen=True, slots=True)
class Telling:
    """What is to be told to whom: `count` alarms since `since_us`, wall time."""

    alarm: Alarm
    audience: Audience
    count: int
    since_us: int

    @property
    def is_escalated(self) -> bool:
        """Whether somebody else was told first."""
        return self.audience is not RULES[self.alarm.kind].audience


class Tallies:
    """Every alarm that was raised of late. Times are steady microseconds."""

    def __init__(
        self, window_us: int, escalation: EscalationLimits, stored: Mapping[Alarm, Tally], now_us: int
    ) -> None:
        self._window_us = window_us
        self._limits = escalation
        self._tallies = {alarm: _clamped(tally, now_us) for alarm, tally in stored.items()}
        self._changed: dict[Alarm, Tally | None] = {}
        untold = {alarm: tally for alarm, tally in self._tallies.items() if tally.untold}
        self._due = {alarm: self._due_at(alarm, tally, now_us) for alarm, tally in untold.items()}

    def count(self, alarm: Alarm, now: Now) -> None:
        """One more."""
        tally = self._changed[alarm] = self._tallies.setdefault(alarm, Tally())
        if tally.is_over(now.steady_us, self._limits.window_us):
            tally.total = 0
            tally.since_us = now.wall_us
            tally.recent.clear()
        if not tally.untold:
            tally.untold_since_us = now.wall_us
        tally.untold += 1
        tally.total += 1
        tally.recent.append(now.steady_us)
        del tally.recent[: -self._limits.repeats]
        if alarm not in self._due:
            self._due[alarm] = self._due_at(alarm, tally, now.steady_us)

    def take_due(self, now_us: int) -> list[Telling]:
        """What is to be told now; the next alarm of the same kind opens a new window."""
        tellings: list[Telling] = []
        due = [alarm for alarm, at in self._due.items() if at <= now_us]
        for alarm in due:
            del self._due[alarm]
            tally = self._changed[alarm] = self._tallies[alarm]
            tellings.append(Telling(alarm, RULES[alarm.kind].audience, tally.untold, tally.untold_since_us))
            tally.untold = 0
            if tellings[-1].audience is not Audience.GOVERNOR and self._is_pattern(tally, now_us):
                tellings.append(Telling(alarm, Audience.GOVERNOR, tally.total, tally.since_us))
            if tellings[-1].audience is Audience.GOVERNOR:
                tally.escalated_us = now_us
        if due:
            self._forget_ended(now_us)
        return tellings

    def take_changed(self) -> Mapping[Alarm, Tally | None]:
        """What has changed since the last question and is to be stored; None is to be forgotten."""
        changed, self._changed = self._changed, {}
        return changed

    def next_due_us(self) -> int | None:
        """When there is something to tell, at the earliest."""
        return min(self._due.values(), default=None)

    def _due_at(self, alarm: Alarm, tally: Tally, now_us: int) -> int:
        rule = RULES[alarm.kind]
        due_us = now_us if rule.at_once else now_us + self._window_us
        if rule.audience is not Audience.GOVERNOR or tally.escalated_us is None:
            return due_us
        return max(due_us, tally.escalated_us + (self._limits.window_us if rule.storms else self._window_us))

    def _is_pattern(self, tally: Tally, now_us: int) -> bool:
        recent, limits = tally.recent, self._limits
        if len(recent) < limits.repeats or recent[-1] - recent[0] > limits.window_us:
            return False
        return tally.escalated_us is None or tally.escalated_us + limits.window_us <= now_us

    def _forget_ended(self, now_us: int) -> None:
        """So that there are no more than were raised in a window, whatever the reasons are called."""
        window_us = self._limits.window_us
        ended = [alarm for alarm, tally in self._tallies.items() if tally.is_spent(now_us, window_us)]
        for alarm in ended:
            del self._tallies[alarm]
            self._changed[alarm] = None


def _clamped(tally: Tally, now_us: int) -> Tally:
    """A copy whose times, read off an earlier process's clock, do not lie in the future."""
    escalated_us = None if tally.escalated_us is None else min(tally.escalated_us, now_us)
    return replace(tally, recent=[min(at, now_us) for at in tally.recent], escalated_us=escalated_us)
