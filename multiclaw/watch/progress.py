"""What the watcher remembers of its work over restarts: how far it has read, and what it has told lately."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from multiclaw.watch.core.entry import Place, place_of
from shared.durable_files import write_durably
from shared.emergency_news import FilePlace
from shared.times import MICROSECONDS

_log = logging.getLogger(__name__)

FILE_NAME: Final = "place.json"
_VERSION: Final = 1

_RECENT_MAX: Final = 512
"""Alarms that are recognised when they are read again; after a crash that is one batch (`watcher.py`) at most."""

_REPORTED_MAX: Final = 256

_MARGIN_US: Final = 60 * MICROSECONDS
"""How far before the last change of a file that is damaged reading begins anew."""


@dataclass(slots=True)
class Progress:
    """`floor_us`: when the work began; without a place reading begins there, or, `from_now`, with what comes.
    `reported`: users of whose forged entries was told."""

    floor_us: int
    journal: Place | None = None
    files: dict[str, FilePlace] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    from_now: bool = False

    def begin_at(self, time_us: int) -> None:
        """Read the journal again from a time on; what is recognised is not told again."""
        self.floor_us, self.journal, self.from_now = time_us, None, False

    def knows(self, alarm_id: str) -> bool:
        """Whether an alarm was taken before."""
        return alarm_id in self.recent

    def took(self, alarm_id: str) -> None:
        """Remember an alarm."""
        self.recent = [*self.recent[-_RECENT_MAX + 1 :], alarm_id]

    def is_first_report(self, uid: str) -> bool:
        """Whether nothing was told of this user yet; it counts as told from now on."""
        if uid in self.reported or len(self.reported) >= _REPORTED_MAX:
            return False
        self.reported.append(uid)
        return True

    @classmethod
    def load(cls, folder: Path, now_us: int) -> Self:
        """What was saved; new where nothing was. A damaged file is kept aside, and work goes on from when it was
        written, so that nothing is missed. Raises `OSError`."""
        path = folder / FILE_NAME
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls(now_us, from_now=True)
        except UnicodeDecodeError:
            text = ""
        try:
            return cls(**_restored(json.loads(text)))
        except (ValueError, LookupError, TypeError) as error:
            _log.warning("place-damaged: %s is kept as %s.damaged: %s", path, FILE_NAME, error)
            changed_us = path.stat().st_mtime_ns // 1_000
            path.replace(path.with_name(FILE_NAME + ".damaged"))
            return cls(min(changed_us, now_us) - _MARGIN_US)

    def save(self, folder: Path) -> None:
        """Whole and synced, or not at all; raises `OSError`."""
        document = {
            "version": _VERSION,
            "floor_us": self.floor_us,
            "cursor": None if self.journal is None else self.journal.cursor,
            "files": {name: [place.inode, place.offset] for name, place in self.files.items()},
            "recent": self.recent,
            "reported": self.reported,
        }
        write_durably(folder / FILE_NAME, json.dumps(document, separators=(",", ":")).encode())


def _restored(document: dict[str, Any]) -> dict[str, Any]:
    if document["version"] != _VERSION:
        raise ValueError(f"its version is {document['version']}, and {_VERSION} is known here")
    cursor = document["cursor"]
    return {
        "floor_us": int(document["floor_us"]),
        "journal": None if cursor is None else place_of(cursor),
        "files": {name: FilePlace(int(inode), int(offset)) for name, (inode, offset) in document["files"].items()},
        "recent": [str(one) for one in document["recent"]],
        "reported": [str(one) for one in document["reported"]],
    }
