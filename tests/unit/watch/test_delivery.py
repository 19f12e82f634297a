"""Which alarm is told next, and how long one waits."""

from dataclasses import replace

import pytest

from multiclaw.watch.core.delivery import PENDING_MAX, Pending, is_over, next_for, overflowing, retry_seconds
from tests.unit.watch.test_alarm import alarm

ONE = alarm()


def pending(number: int, *ways: str, taken_us: int = 0) -> Pending:
    """An alarm of that number, which is its id too."""
    return Pending(number, taken_us, replace(ONE, id=str(number)), ways or ("command",))


def test_the_oldest_is_next_unless_it_failed() -> None:
    """An alarm that cannot be told does not hold up those after it, and is tried again when they are told."""
    waiting = [pending(1), pending(2), pending(3, "agent x")]
    assert next_for("command", waiting, {}) == waiting[0]
    assert next_for("command", waiting, {"1": 1}) == waiting[1]
    assert next_for("command", waiting, {"1": 1, "2": 1}) == waiting[0]
    assert next_for("agent x", waiting, {"1": 1}) == waiting[2]
    assert next_for("agent y", waiting, {}) is None


def test_the_wait_grows_to_a_minute() -> None:
    """It doubles from a second and stays bounded after any number of failures."""
    assert [retry_seconds(failures) for failures in (1, 2, 3, 7, 10**6)] == [1, 2, 4, 60, 60]


@pytest.mark.parametrize(("now_us", "over"), [(9, False), (10, True), (-5, False)])
def test_an_alarm_is_over_when_it_has_waited_long_enough(now_us: int, over: bool) -> None:
    """A clock that went back only makes it wait longer."""
    assert is_over(pending(1), now_us, 10) == over


def test_a_full_way_gives_up_its_oldest() -> None:
    """One more has room then; other ways are not counted."""
    waiting = [pending(number) for number in range(PENDING_MAX)]
    assert overflowing("command", waiting[1:]) == []
    assert overflowing("command", reversed(waiting)) == waiting[:1]
    assert overflowing("agent x", waiting) == []
