"""When a backup of the store is due, what it is called, and which of them may go. Pure.

The age of a backup is told by steady time within a process; the wall clock only says at a start how old the newest one
is, and one from the future counts as old. Which backups may go is told by the numbers of their newest messages, which
only grow, and by the days that they name: no clock is asked, so none that jumps can make one go.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from adapter.core.policy import Now
from shared.times import MICROSECONDS

FIRST_US: Final = 60 * MICROSECONDS
"""After the first message of a store, and after each start: whoever starts or restarts has sends waiting."""

RETRY_US: Final = 900 * MICROSECONDS
"""After a failure: a disk that somebody makes room on, or that was away for a while."""

_MOMENT: Final = "%Y-%m-%dT%H-%M-%SZ"
_NAME: Final = re.compile(r"store-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ)-(\d{12,19})\.db", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


class Backup(NamedTuple):
    """A verified copy: the number of the newest message in it, and when it was begun, in wall microseconds."""

    last_message_id: int
    made_at_us: int

    @property
    def name(self) -> str:
        """Of its file: UTC to the second, and the number."""
        at = _EPOCH + self.made_at_us // MICROSECONDS * _SECOND
        return f"store-{at.strftime(_MOMENT)}-{self.last_message_id:012}.db"


def parse_name(name: str) -> Backup | None:
    """The backup that a file of this name is; `None` for any other file, which is somebody else's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        at = datetime.strptime(found[1], _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Backup(int(found[2]), (at - _EPOCH) // _SECOND * MICROSECONDS)


def surplus(backups: Collection[Backup], made: Backup, keep: int, keep_days: int) -> list[Backup]:
    """Those that may go once `made` is verified: neither among the newest `keep`, nor the newest of one of the last
    `keep_days` days of which there are any.
    """
    newest_first = sorted({*backups, made}, reverse=True)
    of_days: dict[int, Backup] = {}
    for backup in newest_first:
        of_days.setdefault(backup.made_at_us // (86_400 * MICROSECONDS), backup)
    kept = {made, *newest_first[:keep], *list(of_days.values())[:keep_days]}
    return [backup for backup in newest_first if backup not in kept]


@dataclass(slots=True)
class BackupTimes:
    """When the next one is due, in steady microseconds."""

    interval_us: int
    due_us: int

    @classmethod
    def at_start(cls, newest: Backup | None, interval_us: int, now: Now) -> "BackupTimes":
        """One that was due while nobody ran is made a while after the start, not at it."""
        age_us = interval_us if newest is None else now.wall_us - newest.made_at_us
        rest_us = interval_us - age_us if 0 <= age_us < interval_us else 0
        return cls(interval_us, now.steady_us + max(FIRST_US, rest_us))

    def is_due(self, last_message_id: int, steady_us: int) -> bool:
        """Whether to make one now. A store without a message needs none."""
        if last_message_id == 0:
            self.due_us = steady_us + FIRST_US
        return steady_us >= self.due_us

    def made(self, begun_us: int) -> None:
        """One that was begun then is verified."""
        self.due_us = begun_us + self.interval_us

    def failed(self, steady_us: int) -> None:
        """It is tried again, sooner than the next one would be due."""
        self.due_us = steady_us + min(self.interval_us, RETRY_US)
