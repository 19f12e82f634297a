"""Tallies: when an alarm is told, to whom, with which count, and what is a pattern."""

import pytest

from adapter.core.alarms import RULES, Alarm, AlarmKind, Audience
from adapter.core.policy import EscalationLimits
from adapter.core.tallies import Tallies, Tally
from tests.support.clock import us
from tests.support.factories import START_US, now

DIED = Alarm(AlarmKind.DEAD_LETTER, "qa", "refused")
OTHER = Alarm(AlarmKind.DEAD_LETTER, "pm", "refused")
FULL = Alarm(AlarmKind.QUEUE_FULL, "qa", "")
LIMITS = EscalationLimits(3, us(100), dead_letters_max=1, absence_us=1, absence_governor_us=1)


def tallies(stored=None, seconds=0.0):
    return Tallies(us(10), LIMITS, stored or {}, now(seconds).steady_us)


def raised(subject, alarm, *seconds):
    for at in seconds:
        subject.count(alarm, now(at))


def told(subject, seconds):
    """(audience, count, seconds of the first one) of what is told then."""
    tellings = subject.take_due(now(seconds).steady_us)
    return [(telling.audience.name, telling.count, (telling.since_us - START_US) / 1e6) for telling in tellings]


def test_a_window_is_due_once():
    """What was told is gone until something is counted again."""
    subject = tallies()
    raised(subject, DIED, 1, 5)
    assert subject.next_due_us() == now(11).steady_us
    assert told(subject, 10.9) == []
    assert told(subject, 11) == [("PLATFORM", 2, 1)]
    assert (subject.next_due_us(), told(subject, 999)) == (None, [])
    raised(subject, DIED, 1000)
    assert told(subject, 1010) == [("PLATFORM", 1, 1000)]


@pytest.mark.parametrize(
    ("times", "escalated"),
    [
        ((0, 50, 100), (3, 0)),
        ((0, 50, 100.1), None),
        ((0, 99, 101, 102), (4, 0)),
        ((0, 1), None),
    ],
)
def test_a_pattern_is_so_many_within_any_window(times, escalated):
    """Wherever the window begins: no count starts anew in the middle of a pattern (promise 6)."""
    subject = tallies()
    tellings = []
    for at in times:
        raised(subject, DIED, at)
        tellings += told(subject, at + 10)
    governor = [(count, since) for audience, count, since in tellings if audience == "GOVERNOR"]
    assert governor == ([escalated] if escalated else [])


def test_the_governor_is_told_of_a_pattern_once_in_a_window():
    """With all that came since it began; and once more when it goes on past the window."""
    subject = tallies()
    tellings = []
    for at in range(0, 220, 10):
        raised(subject, DIED, at)
        tellings += [(at, *telling) for telling in told(subject, at + 10) if telling[0] == "GOVERNOR"]
    assert tellings == [(20, "GOVERNOR", 3, 0), (120, "GOVERNOR", 13, 0)]


def test_a_quiet_window_ends_a_pattern():
    """What comes a window later is counted from one."""
    subject = tallies()
    raised(subject, DIED, 0, 1)
    told(subject, 10)
    raised(subject, DIED, 101, 102, 103)
    assert told(subject, 111) == [("PLATFORM", 3, 101), ("GOVERNOR", 3, 101)]


def test_subjects_are_counted_apart():
    """Three alarms about three things are no pattern."""
    subject = tallies()
    raised(subject, DIED, 0, 0)
    raised(subject, OTHER, 0, 0)
    assert told(subject, 10) == [("PLATFORM", 2, 0), ("PLATFORM", 2, 0)]


def test_what_is_the_governors_is_told_at_once_and_once_in_a_window():
    """The first in a moment, those that follow together, and never as a repetition (promise 7)."""
    subject = tallies()
    raised(subject, FULL, 1)
    assert subject.next_due_us() == now(1).steady_us
    assert told(subject, 1) == [("GOVERNOR", 1, 1)]
    raised(subject, FULL, *range(2, 50))
    assert subject.next_due_us() == now(101).steady_us
    assert told(subject, 101) == [("GOVERNOR", 48, 2)]


def test_a_restart_goes_on_counting():
    """What was not told is told, and the third of a pattern is the third."""
    first = tallies()
    raised(first, DIED, 0)
    told(first, 10)
    raised(first, DIED, 20)
    stored = dict(first.take_changed())
    assert first.take_changed() == {}
    second = tallies(stored, 25)
    assert second.next_due_us() == now(35).steady_us
    raised(second, DIED, 30)
    assert told(second, 35) == [("PLATFORM", 2, 20), ("GOVERNOR", 3, 0)]


def test_times_of_a_clock_that_was_ahead_keep_nobody_silent():
    """A stored time in the future counts as now."""
    ahead = Tally(untold=1, untold_since_us=START_US, total=1, since_us=START_US, recent=[START_US + us(10**6)])
    ahead.escalated_us = START_US + us(10**6)
    subject = tallies({FULL: ahead})
    assert told(subject, 99) == []
    assert told(subject, 100) == [("GOVERNOR", 1, 0)]


def test_times_that_were_ahead_make_no_pattern():
    """They are as old as the restart, and end with its window."""
    subject = tallies({DIED: Tally(total=2, since_us=START_US, recent=[START_US + us(10**6)] * 2)})
    raised(subject, DIED, 200)
    assert told(subject, 210) == [("PLATFORM", 1, 200)]


def test_alarms_that_are_over_are_forgotten():
    """So that reasons which never come again do not gather."""
    subject = tallies()
    for number in range(50):
        raised(subject, Alarm(AlarmKind.TOPOLOGY, "pm", f"proposal {number}"), number)
        told(subject, number)
    subject.take_changed()
    raised(subject, DIED, 140)
    told(subject, 150)
    forgotten = [alarm for alarm, tally in subject.take_changed().items() if tally is None]
    assert len(forgotten) == 50
    assert told(subject, 10_000) == []


def test_every_kind_has_a_rule():
    """Whoever raises an alarm is heard; what is told to the Governor does not wait."""
    assert set(RULES) == set(AlarmKind)
    assert all(rule.at_once for rule in RULES.values() if rule.audience is Audience.GOVERNOR)
    assert all(rule.summary.format(agent="a", reason="r", count=1) for rule in RULES.values())
