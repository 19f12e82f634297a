"""The state machine of a scheduled send: it waits outside its channel until its time, and then leaves this table.

This file owns the states and the table of transitions. What is not in the table is illegal and raises.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self


class AppointmentState(StrEnum):
    """What has become of it. The words are stored, and told. One that was sent is a message, and nothing here."""

    SCHEDULED = "scheduled"
    FAILED = "failed"  # it could not be sent when its time came; somebody must look at it
    CANCELLED = "cancelled"  # its key is remembered, so that a send of it that is late does not bring it back


class Turn(StrEnum):
    """What can happen to it while it is here."""

    FAIL = "fail"
    CANCEL = "cancel"


TRANSITIONS: Final[dict[tuple[AppointmentState, Turn], AppointmentState]] = {
    (AppointmentState.SCHEDULED, Turn.FAIL): AppointmentState.FAILED,
    (AppointmentState.SCHEDULED, Turn.CANCEL): AppointmentState.CANCELLED,
    (AppointmentState.FAILED, Turn.CANCEL): AppointmentState.CANCELLED,
}


CANCELLED_KEPT_MAX: Final = 10_000
"""Keys of cancelled sends that are remembered, newest first: a send of one that was lost on its way, or that waited in
an outbox, must not bring it back."""


@dataclass(frozen=True, slots=True)
class Appointment:
    """Whose send waits for when: `deliver_at_us` is wall time, as its sender wrote it.

    `number` is the order of acceptance, which decides between two of the same time.
    """

    number: int
    sender: str
    idempotency_key: bytes
    deliver_at_us: int
    standing: AppointmentState = AppointmentState.SCHEDULED

    def after(self, turn: Turn) -> Self:
        """It after a turn; an illegal one raises `ValueError`."""
        standing = TRANSITIONS.get((self.standing, turn))
        if standing is None:
            raise ValueError(f"a {self.standing} send cannot {turn}")
        return replace(self, standing=standing)
