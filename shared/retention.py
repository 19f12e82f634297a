"""The `[retention]` table of `multiclaw.toml`."""

import math
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from shared.limits import RETENTION_DAYS_MIN
from shared.section import Section

_DAYS_MAX: Final = 36_525
"""A hundred years; who wants more says "forever"."""


def _check_days(days: float | str) -> float | str:
    if isinstance(days, float) and not RETENTION_DAYS_MIN <= days <= _DAYS_MAX:
        raise ValueError(f"{days:g} days are not between {RETENTION_DAYS_MIN} (90 minutes) and {_DAYS_MAX}")
    return days


Days = Annotated[float | Literal["forever"], AfterValidator(_check_days)]
"""How long something is kept. A message's key is remembered as long as the message, hence the minimum."""


class ChannelRetention(Section):
    """What one channel keeps for longer or shorter than the others."""

    message_days: Days | None = None
    contract_days: Days | None = None


class Retention(Section):
    """How long messages are kept (contracts: those whose contract says so), by channel where it differs.

    Every `check_seconds` what is too old begins to go. When the wall clock jumps by more than an hour, that counts for
    no message's age until both clocks have agreed for `clock_trust_hours` of running.
    """

    message_days: Days = 30.0
    contract_days: Days = "forever"
    channels: dict[str, ChannelRetention] = Field(default_factory=dict)
    check_seconds: Annotated[float, Field(ge=1, le=1_800)] = 300.0
    clock_trust_hours: Annotated[float, Field(ge=RETENTION_DAYS_MIN * 24, le=720)] = 24.0

    def days(self, channel: str) -> tuple[Days, Days]:
        """For how long a channel keeps its messages, and its contracts."""
        own = self.channels.get(channel, ChannelRetention())
        message = self.message_days if own.message_days is None else own.message_days
        contract = self.contract_days if own.contract_days is None else own.contract_days
        return message, contract

    @property
    def shortest_days(self) -> float:
        """What the key of any message is remembered for at least."""
        kept = [days for channel in ("", *self.channels) for days in self.days(channel)]
        return min((days for days in kept if days != "forever"), default=math.inf)
