"""Backups: the `[backups]` table of `multiclaw.toml`, and what the adapter tells of them."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from shared.model import Model
from shared.section import Section

BACKUPS_PATH: Final = "/link/v1/governor/backups"


class Backups(Section):
    """How often the adapter's store is copied, how many copies are kept, and where.

    Kept are the newest `keep`, and beyond them the newest of each of the last `keep_days` days of which there is one.
    The folder is `backups` beside the store, unless another is named. One on another disk outlives this one.
    """

    enabled: bool = True
    interval_hours: Annotated[float, Field(gt=0, le=720)] = 6.0
    keep: Annotated[int, Field(ge=1, le=1_000)] = 4
    keep_days: Annotated[int, Field(ge=0, le=366)] = 7
    folder: Path | None = None


class RunningBackup(Model):
    """A copy that is being made or verified; `bytes` are written of `of`."""

    bytes: int
    of: int


class BackupState(Model):
    """What became of backups. Figures of the last one that was verified outlast restarts, all but `seconds`."""

    schedule: Literal["on", "off"]
    running: RunningBackup | None = None
    attempts: int = Field(default=0, description="that ended, since the adapter was started")
    last_success: str | None = Field(default=None, description="when the newest verified backup was begun")
    file: str | None = Field(default=None, description="the newest verified backup")
    last_message: int | None = Field(default=None, description="number of the newest message in it")
    bytes: int | None = Field(default=None, description="its size")
    seconds: float | None = Field(default=None, description="how long it took; null for one of an earlier start")
    last_failure: str | None = Field(default=None, description="since the adapter was started")
    failure: str | None = Field(default=None, description="why the last attempt failed; null after a success")
