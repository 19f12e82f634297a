"""Gaps: what a poll says that this agent was not given."""

import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_log = logging.getLogger(__name__)

_GAPS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences of a channel, both ends included, that this agent was not given; `agent.read` gets them.

    `reason` is `restored` where nobody can: the store was put back to an older state, or repaired with losses, and they
    are lost, or were never given.
    """

    channel: str
    first: int
    last: int
    reason: str | None = None


GapHook = Callable[[Gap], Any]
"""Plain or async; what it raises is logged and does not harm the messages of the same poll."""


class GapLog:
    """The newest gaps, and who wants to hear of them."""

    def __init__(self, hook: GapHook | None) -> None:
        self._hook = hook
        self.gaps: deque[Gap] = deque(maxlen=_GAPS_MAX)

    async def note(self, gap: Gap) -> None:
        """Remember it, and tell the hook."""
        self.gaps.append(gap)
        if self._hook is None:
            return
        try:
            noted = self._hook(gap)
            if inspect.isawaitable(noted):
                await noted
        except Exception:
            _log.exception("on_gap failed for %s", gap)
