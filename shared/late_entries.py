"""Entries that had to go to the file, handed to the journal once there is one: by their writer, whom journald knows.

So whoever reads the journal finds all of them there, and need not be let into the folders of the processes. Each says
when it was raised (`MULTICLAW_TIME`) and which line it was (`MULTICLAW_LINE`): after a crash one can be there twice.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared.emergency_news import FilePlace, line_id, read_news
from shared.journal_socket import send_entry

_MARK: Final = "emergencies.handed-in"
_PATIENCE_SECONDS: Final = 0.3


class LateEntries:
    """Those of one process, which keeps its state in `folder`. A mark beside the file says how far it was handed in."""

    def __init__(self, identifier: str, folder: Path, socket_path: Path) -> None:
        self._identifier = identifier
        self._folder = folder
        self._socket_path = socket_path
        self._last: FilePlace | None = None
        self._taken: set[str] = set()

    def hand_in(self) -> bool:
        """Hand over what is new, in order, until the journal takes no more; whether it took all. Raises `OSError`.

        What was put away before there was a journal, or is no line of ours, is passed over.
        """
        self._last = self._last or self._mark()
        news = read_news(self._folder, self._last)
        if news is None:
            return True
        for line in news.lines:
            fields = self._fields(line)
            if fields is None or fields["MULTICLAW_LINE"].decode() in self._taken:
                continue
            if not send_entry(self._socket_path, fields, _PATIENCE_SECONDS):
                return False
            self._taken.add(line_id(line))
        self._set_mark(news.place)
        self._taken.clear()
        return True

    def _fields(self, line: bytes) -> Mapping[str, bytes] | None:
        """The entry that the line would have been, and what tells it from one that was not late."""
        try:
            said = json.loads(line)
            texts = {
                "MESSAGE": said["message"],
                "MESSAGE_ID": said["message_id"],
                "PRIORITY": str(said["priority"]),
                "SYSLOG_IDENTIFIER": self._identifier,
                "MULTICLAW_EVENT": said["event"],
                "MULTICLAW_AGENT": said["agent"],
                "MULTICLAW_KIND": said["kind"],
                "MULTICLAW_DETAILS": json.dumps(said["details"], ensure_ascii=False, separators=(",", ":")),
                "MULTICLAW_TIME": said["time"],
                "MULTICLAW_LINE": line_id(line),
            }
            return {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            return None

    def _mark(self) -> FilePlace | None:
        try:
            inode, offset = json.loads((self._folder / _MARK).read_bytes())
            return FilePlace(int(inode), int(offset))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _set_mark(self, place: FilePlace) -> None:
        """Replaced whole, and not synced: after a power cut lines may be handed in again, and are recognised."""
        draft = self._folder / f".{_MARK}.{os.getpid()}"
        draft.write_text(json.dumps([place.inode, place.offset]), encoding="ascii")
        draft.replace(self._folder / _MARK)
        self._last = place
