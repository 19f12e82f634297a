"""How fast a sender may be: a bucket of tokens for each sender and class of messages, so that an agent in a loop
cannot flood a channel, and its chatter uses up none of what its cancels need.

A token is a million parts, and a microsecond brings as many parts as there are tokens to a second: whole numbers, so
that nothing drifts. The buckets are memory only; a restart forgives what was spent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.problems import Problem
from shared.times import MICROSECONDS

_TOKEN: Final = MICROSECONDS

_ALARM_EVERY_US: Final = 60 * MICROSECONDS
"""A sender that stays too fast is reported once a minute: often enough to see that it goes on."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages per second over time, and how many may come at once after a pause."""

    per_second: int
    burst: int


class Bucket:
    """The tokens of one sender and class. It is full at first. Times are steady microseconds."""

    def __init__(self, rate: Rate, now_us: int) -> None:
        self.rate = rate
        self._parts_max = rate.burst * _TOKEN
        self._parts = self._parts_max
        self._filled_at_us = now_us
        self._alarm_at_us: int | None = None

    def take(self, now_us: int) -> bool:
        """Take a token, if there is one."""
        if now_us != self._filled_at_us:
            self._fill(now_us)
        if self._parts < _TOKEN:
            return False
        self._parts -= _TOKEN
        return True

    def wait_us(self) -> int:
        """How long after the last `take` there is a token; 0 when there is one."""
        return max(0, -((self._parts - _TOKEN) // self.rate.per_second))

    def is_news(self, now_us: int) -> bool:
        """Whether a refusal at this moment is to be reported: the first is, and then one in a minute."""
        if self._alarm_at_us is not None and now_us < self._alarm_at_us:
            return False
        self._alarm_at_us = now_us + _ALARM_EVERY_US
        return True

    def _fill(self, now_us: int) -> None:
        """A clock that went back brings nothing, and counts on from where it is: else it would freeze the sender."""
        gained = max(0, now_us - self._filled_at_us) * self.rate.per_second
        self._parts = min(self._parts + gained, self._parts_max)
        self._filled_at_us = now_us


class Allowances:
    """The buckets of everybody; each is made when it is first needed."""

    def __init__(self, rates: Mapping[str, Rate]) -> None:
        self._rates = rates
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def bucket(self, sender: str, rate_class: str, now_us: int) -> Bucket:
        """The bucket of a sender and a class that the configuration knows."""
        key = sender, rate_class
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._rates[rate_class], now_us)
        return bucket


def too_fast(bucket: Bucket, rate_class: str) -> Problem:
    """The refusal of a message for which there was no token: it tells when there is one, and how many follow."""
    rate = bucket.rate
    detail = (
        f"You may send {rate.per_second} messages of the class {rate_class!r} a second, "
        f"and {rate.burst} at once after a pause; send it again, later."
    )
    wait_seconds = bucket.wait_us() / MICROSECONDS
    return Problem("rate-limited", detail, retry_after=wait_seconds, rate_class=rate_class, per_second=rate.per_second)
