"""Since when the adapter has not done what was asked of it, over the breaker's closings.

A health probe that succeeds closes the breaker, but shows nothing of sends and polls: where requests have failed, only
one that is answered ends the outage, or that none has failed for so long that none can have been asked.

    begins   with the first request that fails, or as the breaker opens
    over     a request is answered; or the breaker is closed, and either none had failed or it was quiet for `quiet_us`
"""


class Outage:
    """Times are steady, in microseconds, and passed in.

    `quiet_us` must be longer than a request may take: within it one that was asked would have failed or been answered.
    """

    def __init__(self, quiet_us: int) -> None:
        self._quiet_us = quiet_us
        self._since_us: int | None = None
        self._failed_us: int | None = None  # when a request last failed, of those since one was answered
        self._quiet_from_us = 0
        self._is_open = False

    def failed(self, now_us: int) -> None:
        """A request was not answered."""
        self._begin(now_us)
        self._failed_us = self._quiet_from_us = now_us

    def answered(self) -> bool:
        """A request was answered. Whether that ended one."""
        ended = self._since_us is not None
        self._since_us = self._failed_us = None
        return ended

    def opened(self, now_us: int) -> None:
        """The breaker has left `closed`."""
        self._begin(now_us)
        self._is_open = True

    def closed(self, now_us: int) -> None:
        """A probe has closed the breaker."""
        self._is_open, self._quiet_from_us = False, now_us
        if self._failed_us is None:
            self._since_us = None

    def lasts(self, now_us: int) -> bool:
        """Whether it is not over."""
        return self._since_us is not None and not self._is_quiet(now_us)

    def is_shown_by_requests(self, now_us: int) -> bool:
        """Whether a probe that succeeds says nothing about it."""
        return self._failed_us is not None and self.lasts(now_us)

    def us(self, now_us: int) -> int:
        """How long it has lasted for certain: while requests may go out, up to the last that failed."""
        if self._since_us is None or not self.lasts(now_us):
            return 0
        return (now_us if self._is_open else self._failed_us or self._since_us) - self._since_us

    def quiet_at_us(self) -> int | None:
        """When it is over if nobody asks for anything; `None` where that changes nothing."""
        doubted = self._since_us is not None and self._failed_us is not None and not self._is_open
        return self._quiet_from_us + self._quiet_us if doubted else None

    def _begin(self, now_us: int) -> None:
        if not self.lasts(now_us):
            self._since_us, self._failed_us = now_us, None

    def _is_quiet(self, now_us: int) -> bool:
        at_us = self.quiet_at_us()
        return at_us is not None and now_us >= at_us
