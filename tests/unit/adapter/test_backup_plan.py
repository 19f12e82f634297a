"""When a backup is due, what it is called, and which may go: decided without a clock that can jump."""

import pytest

from adapter.core.backup_plan import FIRST_US, RETRY_US, Backup, BackupTimes, parse_name, surplus
from adapter.core.policy import Now
from tests.support.clock import us
from tests.support.factories import START_US

HOUR, DAY = us(3_600), us(86_400)
INTERVAL = 6 * HOUR


def made(hours: float, number: int | None = None) -> Backup:
    """One of so many hours after the start; its number grows with them."""
    return Backup(round(hours * 100) + 1 if number is None else number, START_US + round(hours * HOUR))


def start(newest: Backup | None, hours: float = 0.0) -> BackupTimes:
    """Times of an adapter that starts so many hours after the start, whose steady clock begins at 0."""
    return BackupTimes.at_start(newest, INTERVAL, Now(START_US + round(hours * HOUR), 0))


def test_a_name_tells_time_and_number():
    """In UTC, in an order that sorts, and read back to the second."""
    backup = Backup(12_345, START_US + 999_999)
    assert backup.name == "store-2027-01-15T08-00-00Z-000000012345.db"
    assert parse_name(backup.name) == Backup(12_345, START_US)


@pytest.mark.parametrize(
    "name",
    [
        "store.partial",
        "store-2027-01-15T08-00-00Z-000000012345.db.partial",
        "store-2027-13-15T08-00-00Z-000000012345.db",
        "store-2027-01-15T08-00-00Z-12345.db",
        "store-\u0662\u0660\u0662\u0667-01-15T08-00-00Z-000000012345.db",
        "store.db",
        "notes",
    ],
)
def test_what_has_another_name_is_somebody_elses(name):
    """It is never listed, so never removed."""
    assert parse_name(name) is None


def test_the_newest_stay_and_one_of_each_day():
    """Of three weeks of four a day: the newest four, and the last of each of seven days."""
    backups = [made(hours) for hours in range(0, 21 * 24, 6)]
    gone = surplus(backups[:-1], backups[-1], keep=4, keep_days=7)
    left = [backup for backup in backups if backup not in gone]
    assert left[-4:] == backups[-4:]
    days = {backup.made_at_us // DAY for backup in left}
    assert len(days) == 7
    assert len(left) == 4 + 5  # the newest four are of two days
    by_day = {day: max(b for b in backups if b.made_at_us // DAY == day) for day in days}
    assert set(by_day.values()) <= set(left)


def test_what_was_made_just_now_stays_whatever_the_others_say():
    """A clock that was years ahead, or is years behind, makes none of the good ones go."""
    from_the_future = [made(hours + 24 * 365, number) for number, hours in enumerate((0, 6, 12, 18), 10)]
    now = made(0, 20)
    gone = surplus(from_the_future, now, keep=1, keep_days=1)
    assert now not in gone
    assert set(gone) == set(from_the_future)
    assert surplus([], now, keep=1, keep_days=0) == []


def test_a_wrong_date_holds_no_place_for_ever():
    """What a clock ahead has named goes, as it would have by its right name."""
    wrong = made(24 * 365, 5)
    backups = [wrong, *(made(24 * day, 10 + day) for day in range(8))]
    assert wrong in surplus(backups[:-1], backups[-1], keep=4, keep_days=7)


def test_the_first_one_is_made_soon_after_the_first_message():
    """An empty store needs none; a minute after its first message is soon enough."""
    times = start(None)
    assert not times.is_due(0, 10 * HOUR)
    assert not times.is_due(1, 10 * HOUR + FIRST_US - 1)
    assert times.is_due(1, 10 * HOUR + FIRST_US)


def test_one_that_was_due_while_nobody_ran_is_made_after_the_start_and_not_at_it():
    """A minute later."""
    times = start(made(0), hours=24)
    assert not times.is_due(1, 0)
    assert times.is_due(1, FIRST_US)


def test_a_restart_does_not_put_it_off():
    """The newest one's age counts."""
    times = start(made(0), hours=4)
    assert not times.is_due(1, 2 * HOUR - 1)
    assert times.is_due(1, 2 * HOUR)


@pytest.mark.parametrize("step_hours", [-1, -10_000, 24 * 40])
def test_a_clock_that_was_set_puts_none_off(step_hours):
    """A backup from the future says nothing of its age: it counts as old; so does one from long ago."""
    assert start(made(0), hours=step_hours).is_due(1, FIRST_US)


def test_the_next_one_is_due_an_interval_after_the_last_was_begun():
    """By steady time."""
    times = start(None)
    times.made(HOUR)
    assert not times.is_due(1, HOUR + INTERVAL - 1)
    assert times.is_due(1, HOUR + INTERVAL)


def test_a_failure_is_tried_again_sooner():
    """After a quarter of an hour, and never less often than asked for."""
    times = start(None)
    times.failed(HOUR)
    assert not times.is_due(1, HOUR + RETRY_US - 1)
    assert times.is_due(1, HOUR + RETRY_US)
    times.interval_us = us(60)
    times.failed(HOUR)
    assert times.is_due(1, HOUR + us(60))
