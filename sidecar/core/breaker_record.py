"""What a breaker has been through: how often it entered each state, and how long it was in each."""

from collections.abc import Mapping
from typing import Final, Literal

from shared.times import MICROSECONDS

State = Literal["closed", "open", "half-open"]

STATES: Final[tuple[State, ...]] = ("closed", "open", "half-open")


class BreakerRecord:
    """Begins in `closed`. Times are steady, in microseconds, and passed in."""

    def __init__(self, now_us: int) -> None:
        self._state: State = "closed"
        self._entered_us = self._left_closed_us = now_us
        self._spent_us: dict[State, int] = dict.fromkeys(STATES, 0)
        self._entries: dict[State, int] = dict.fromkeys(STATES, 0)

    def enter(self, state: State, now_us: int) -> None:
        """It is in another state from now on."""
        self._spent_us[self._state] += now_us - self._entered_us
        if self._state == "closed":
            self._left_closed_us = now_us
        self._state, self._entered_us = state, now_us
        self._entries[state] += 1

    def seconds(self, now_us: int) -> Mapping[str, float]:
        """Time spent in each state, the present one included."""
        spent_us = self._spent_us | {self._state: self._spent_us[self._state] + now_us - self._entered_us}
        return {state: us / MICROSECONDS for state, us in spent_us.items()}

    def entries(self) -> Mapping[str, float]:
        """How often each state was entered."""
        return {state: float(count) for state, count in self._entries.items()}

    def not_closed_us(self, now_us: int) -> int:
        """For how long it has not been closed; probes that failed meanwhile do not begin it anew."""
        return 0 if self._state == "closed" else now_us - self._left_closed_us
