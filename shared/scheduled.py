"""Scheduled messages on the wire: sent when their time comes, seen and cancelled before. One set of models for the
agents' API and the link."""

from typing import Any, Final, Literal

from pydantic import Field

from shared.limits import SCHEDULE_AHEAD_DAYS_MAX
from shared.model import Model
from shared.problems import Problem
from shared.times import MICROSECONDS, from_iso

PATH: Final = "/scheduled"
"""Below `/link/v1` at the adapter and below `/v1` at a sidecar."""

ONE_PATH: Final = f"{PATH}/{{idempotency_key}}"

ITEMS_MAX: Final = 500
ITEMS_DEFAULT: Final = 100

CURSOR_PATTERN: Final = r"^[0-9a-f]{1,15}\.[0-9a-f]{1,15}$"

_AHEAD_US_MAX: Final = SCHEDULE_AHEAD_DAYS_MAX * 86_400 * MICROSECONDS


class ScheduledView(Model):
    """One message that waits for its time, or that could not be sent when it came (`failed`): then `reason` is the
    kind of problem it met, and it stays until it is cancelled."""

    idempotency_key: str
    sender: str
    to: str
    type: str
    task_id: str | None
    deliver_at: str
    scheduled_at: str
    status: Literal["scheduled", "failed"]
    reason: str | None
    detail: str | None


class ScheduledPage(Model):
    """In the order of their times. `next` continues a page that was cut."""

    scheduled: list[ScheduledView]
    next: str | None


class CancelledView(Model):
    """It will not be sent. Cancelling it again gives this again."""

    idempotency_key: str
    sender: str
    status: Literal["cancelled"] = Field(description="its key stays used")


def check_times(envelope: dict[str, Any], now_us: int) -> None:
    """Raise a `Problem` for a `deliver_at` that lies too far ahead, or at which the message will have ended."""
    if envelope.get("deliver_at") is None:
        return
    deliver_at_us = from_iso(envelope["deliver_at"])
    if deliver_at_us > now_us + _AHEAD_US_MAX:
        detail = f"A message can be scheduled {SCHEDULE_AHEAD_DAYS_MAX} days ahead at most."
        raise Problem("invalid-field", detail, field="/deliver_at")
    for name in ("deadline", "expires_at"):
        if envelope.get(name) is not None and from_iso(envelope[name]) <= deliver_at_us:
            detail = f"Its {name} comes before its deliver_at: it would never be delivered."
            raise Problem("invalid-field", detail, field=f"/{name}")
