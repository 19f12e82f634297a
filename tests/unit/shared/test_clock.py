"""Times: exact both ways, RFC 3339 and nothing else, and a steady clock that no step of the wall moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clock import Clock
from shared.times import from_iso, iso


@given(st.integers(0, 4_102_444_800_000_000))
def test_times_survive_their_text(us: int) -> None:
    """from_iso(iso(us)) is us for every microsecond until the year 2100: nothing passes through a float."""
    assert from_iso(iso(us)) == us


def test_the_text_has_a_fixed_width() -> None:
    """Texts of times sort as the times do, so whole seconds keep their zeros."""
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001Z"


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t00:00:01z", 1_000_000),
        ("1970-01-01T02:00:00.5+02:00", 500_000),
        ("1969-12-31T23:59:59.999999-00:00", -1),
        ("1970-01-01T00:00:00.0000019Z", 1),
    ],
)
def test_rfc_3339_times_are_read(text: str, us: int) -> None:
    """Offsets, fractions and both cases of RFC 3339 are understood."""
    assert from_iso(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00Z",
        "20240101T000000Z",
        "2024-W01-1T00:00:00Z",
        "2024-01-01T00:00:00,5Z",
        "2024-01-01T00:00:00+00:00:30",
        "2024-01-01T00:00:00+25:00",
        "2024-13-01T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "２０24-01-01T00:00:00Z",  # noqa: RUF001 - digits of another script
    ],
)
def test_other_notations_are_refused(text: str) -> None:
    """What another RFC 3339 reader would refuse is a `ValueError` here too, whatever `fromisoformat` thinks."""
    with pytest.raises(ValueError, match=r"time|isoformat|month|hour|offset"):
        from_iso(text)


def test_a_step_of_the_wall_does_not_move_the_steady_clock() -> None:
    """After a step of an hour back, steady time goes on from where it was, and wall time follows the wall."""
    now = {"wall": 1_000.0, "monotonic": 5.0}
    clock = Clock(lambda: now["wall"], lambda: now["monotonic"])
    assert clock.steady_us() == clock.wall_us() == 1_000_000_000
    now["wall"] -= 3_600
    now["monotonic"] += 1
    assert clock.steady_us() == 1_001_000_000
    assert clock.wall_us() == (1_000 - 3_600) * 1_000_000
