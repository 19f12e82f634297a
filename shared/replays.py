"""Replay jobs on the wire: many dead letters tried again at a rate, seen and cancelled by the orchestrator."""

from typing import Annotated, Final, Literal

from pydantic import Field

from shared.dead_letters import PATH, Reason
from shared.envelope import IdempotencyKey, Moment, Name
from shared.limits import INTEGER_MAX
from shared.model import Model

REPLAYS_PATH: Final = f"{PATH}/replays"
ONE_REPLAY_PATH: Final = f"{REPLAYS_PATH}/{{id}}"

RATE_MAX: Final = 1_000.0
"""Replays of a job in a second, at most and where none is said: as fast as sends hardly notice."""


class ReplayJobRequest(Model):
    """All dead letters that match the filters are tried again, in the order of their messages.

    What died at `cut_off` or later (default, and at the latest: now) is left alone. The `id` makes it safe to ask again
    after a lost answer.
    """

    id: IdempotencyKey | None = None
    recipient: Name | None = None
    reason: Reason | None = None
    cut_off: Moment | None = None
    rate: Annotated[float, Field(gt=0, le=RATE_MAX, description="a second; the highest where left out")] | None = None
    limit: Annotated[int, Field(ge=1, le=INTEGER_MAX, description="how many in all")] | None = None


class ReplayJobView(Model):
    """A job: what it was asked for, and how far it is."""

    id: str
    state: Literal["running", "done", "cancelled"]
    recipient: str | None
    reason: Reason | None
    cut_off: str
    rate: float | None
    limit: int | None
    created_at: str
    ended_at: str | None
    matched: int = Field(description="dead letters that matched when it began")
    replayed: int
    refused: int = Field(description="expired, or for an agent that was removed: they stay dead")
    remaining: int = Field(description="at most: what others have dealt with meanwhile is still counted")
    waiting: list[str] = Field(description="recipients whose queues have no room for it now")


class ReplayJobs(Model):
    """Those that run, and those that ended not long ago; oldest first."""

    replays: list[ReplayJobView]
