"""Alarms that still have to be told, one file each, until every way has told them or given them up."""

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.delivery import Pending
from shared.durable_files import sync_folder, write_durably

_log = logging.getLogger(__name__)

_FOLDER: Final = "pending"
_DIGITS: Final = 12


class Spool:
    """The files in `folder/pending`, which only this process writes. Every method may raise `OSError`."""

    def __init__(self, folder: Path, ways: Iterable[str]) -> None:
        """Read what is there; what waits only for ways that are configured no more is removed."""
        self._folder = folder / _FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._ways = tuple(ways)
        self._pending: dict[str, Pending] = {}
        self._number = 0
        for path in sorted(self._folder.glob("*.json")):
            self._load(path)

    @property
    def pending(self) -> list[Pending]:
        """All that waits, in the order it was taken."""
        return list(self._pending.values())

    def put(self, alarm: Alarm, ways: Iterable[str], now_us: int) -> None:
        """Keep an alarm for these ways; one that is there already stays as it is. It is on disk when this returns."""
        if alarm.id in self._pending:
            return
        self._number += 1
        self._write(Pending(self._number, now_us, alarm, tuple(ways)))

    def done(self, pending: Pending, way: str) -> None:
        """One way is through with it."""
        now = self._pending.get(pending.alarm.id)
        if now is None:
            return
        left = tuple(name for name in now.ways if name != way)
        if left:
            self._write(replace(now, ways=left))
            return
        self._path(now).unlink(missing_ok=True)
        sync_folder(self._folder)
        del self._pending[now.alarm.id]

    def _write(self, pending: Pending) -> None:
        document = {"taken_us": pending.taken_us, "ways": pending.ways, "alarm": pending.alarm.stored()}
        write_durably(self._path(pending), json.dumps(document, separators=(",", ":")).encode())
        self._pending[pending.alarm.id] = pending

    def _load(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
            number, alarm = int(path.name[:_DIGITS]), Alarm.restored(document["alarm"])
            taken_us, ways = int(document["taken_us"]), tuple(way for way in document["ways"] if way in self._ways)
        except (ValueError, LookupError, TypeError) as error:
            _log.warning("pending-damaged: %s is kept aside: %s", path, error)
            path.replace(path.with_suffix(".damaged"))
            return
        self._number = max(self._number, number)
        if ways:
            self._pending[alarm.id] = Pending(number, taken_us, alarm, ways)
        else:
            path.unlink()

    def _path(self, pending: Pending) -> Path:
        return self._folder / f"{pending.number:0{_DIGITS}d}-{pending.alarm.id}.json"
