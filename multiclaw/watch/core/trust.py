"""Which entries are alarms: our ids, from those who may say so by what journald itself knows of them.

Any process of the host can write any `MESSAGE_ID`, `PRIORITY` and `MULTICLAW_…` field. Fields that begin with an
underscore are journald's own (systemd.journal-fields(7)), and only those say who wrote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from multiclaw.watch.core.alarm import Alarm, alarm_id
from multiclaw.watch.core.entry import JournalEntry
from shared.emergency_news import line_id
from shared.journal_events import CRITICAL, EVENTS, GOVERNOR_ESCALATION, WATCH_UNDELIVERED, JournalEvent, Writer
from shared.problems import Problem
from shared.strict_json import decode
from shared.times import from_iso

_EVENTS: Final = {event.message_id: event for event in EVENTS}

SYSTEMD_EVENTS: Final = {
    "be02cf6855d2428ba40df7e9d022f03d": "unit-start-failed",
    "d9b373ed55a64feb8242e02dbe79a49c": "unit-failed",
    "fe6faa94e7774663a0da52717891d8ef": "unit-out-of-memory",
}
"""systemd's own, of sd-messages.h: SD_MESSAGE_UNIT_FAILED, SD_MESSAGE_UNIT_FAILURE_RESULT and
SD_MESSAGE_UNIT_OUT_OF_MEMORY. They are alarms where they are about a unit of ours and come from systemd itself."""

MESSAGE_IDS: Final = (*_EVENTS, *SYSTEMD_EVENTS)
"""What to look for in a journal; everything else of it is none of our business."""

_WARNING: Final = 4
_ROOT: Final = "0"
_SYSTEMD_PID: Final = "1"
_OUR_UNIT: Final = re.compile(r"multiclaw-[a-z0-9@:_.\\-]+\.(service|socket)")
_INSTANCE: Final = re.compile(r"multiclaw-sidecar@([a-z0-9-]+)\.service")
_FIXED: Final[Mapping[str, Writer]] = {"multiclaw-adapter.service": "adapter", "multiclaw-watch.service": "watch"}


@dataclass(frozen=True, slots=True)
class Ignored:
    """An entry under one of our ids that is no alarm.

    `forged`: whoever wrote it may not say so. `unknown-writer`: journald could not tell who wrote it, as happens with
    a process that has ended before journald looked. `unreadable`: it is not what our processes write.
    """

    reason: Literal["forged", "unknown-writer", "unreadable"]
    event: str
    uid: str
    unit: str


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to believe. Under systemd: our units, which only root can start. Elsewhere: `uid`, the user we are."""

    by_systemd: bool
    uid: int

    def judge(self, entry: JournalEntry) -> Alarm | Ignored | None:
        """What an entry is; None for one that has nothing to do with us."""
        ids = [message_id for message_id in entry.all("MESSAGE_ID") if message_id in MESSAGE_IDS]
        if not ids:
            return None
        message_id = ids[0]
        if len(entry.all("MESSAGE_ID")) > 1:
            return _ignored("forged", "several ids", entry)
        if message_id in SYSTEMD_EVENTS:
            return self._of_systemd(SYSTEMD_EVENTS[message_id], entry)
        return self._of_ours(_EVENTS[message_id], entry)

    def _of_systemd(self, event: str, entry: JournalEntry) -> Alarm | Ignored | None:
        unit = entry.one("UNIT") or ""
        if not self.by_systemd or not _OUR_UNIT.fullmatch(unit):
            return None
        if (entry.one("_PID"), entry.one("_UID")) != (_SYSTEMD_PID, _ROOT):
            return _ignored("forged", event, entry)
        result = entry.one("UNIT_RESULT") or entry.one("JOB_RESULT") or ""
        priority = CRITICAL if result == "start-limit-hit" else _WARNING
        instance = _INSTANCE.fullmatch(unit)
        return _alarm(entry, event, priority, unit, instance[1] if instance else "", {"result": result})

    def _of_ours(self, event: JournalEvent, entry: JournalEntry) -> Alarm | Ignored:
        kind, said = entry.one("MULTICLAW_KIND") or "", entry.one("MULTICLAW_AGENT") or ""
        details = _details(entry.one("MULTICLAW_DETAILS"))
        if not self.by_systemd:
            if entry.one("_UID") != str(self.uid):
                return _ignored("forged", event.name, entry)
            return _alarm(entry, event.name, event.priority, kind, said, details)
        unit = entry.one("_SYSTEMD_UNIT")
        if unit is None:
            return _ignored("unknown-writer", event.name, entry)
        if writer_of(unit) not in event.writers:
            return _ignored("forged", event.name, entry)
        instance = _INSTANCE.fullmatch(unit)
        return _alarm(entry, event.name, event.priority, kind, instance[1] if instance else said, details)


def writer_of(unit: str) -> Writer | None:
    """Which of our programs runs in a unit."""
    if _INSTANCE.fullmatch(unit):
        return "sidecar"
    if unit.startswith("multiclaw-failure@") and unit.endswith(".service"):
        return "failure"
    return _FIXED.get(unit)


def judge_line(line: bytes, writer: Writer, agent: str, uid: int) -> Alarm | Ignored:
    """What a line is that a process wrote to its own file, since there was no journal (`shared/emergency_file.py`).

    `writer` and `agent` are told by the folder. The line's own word on its agent counts where the folder names none.
    """
    try:
        said = decode(line)
        event = _EVENTS[said["message_id"]]
        time_us, kind, summary = from_iso(said["time"]), str(said["kind"]), str(said["message"])
        details, about = said["details"], agent or str(said["agent"])
    except (Problem, LookupError, TypeError, ValueError):
        return Ignored("unreadable", "", str(uid), "")
    if writer not in event.writers:
        return Ignored("forged", event.name, str(uid), "")
    entry = _line_entry(line_id(line))
    return Alarm(
        id=alarm_id(entry),
        entry=entry,
        source="file",
        time_us=time_us,
        priority=event.priority,
        event=event.name,
        kind=kind,
        agent=about,
        summary=summary,
        details=details,
        unit="",
        uid=uid,
        for_agents=event is not GOVERNOR_ESCALATION,
        except_way=_except_way(event.name, details),
    )


def _line_entry(line: str) -> str:
    """What identifies a line of such a file, whether it was read there or handed to the journal later."""
    return f"line={line}"


def _alarm(entry: JournalEntry, event: str, priority: int, kind: str, agent: str, details: Any) -> Alarm:
    uid, line = entry.one("_UID") or "", entry.one("MULTICLAW_LINE")
    identity = entry.place.identity if line is None else _line_entry(line)
    return Alarm(
        id=alarm_id(identity),
        entry=identity,
        source="journal",
        time_us=_raised_us(entry),
        priority=priority,
        event=event,
        kind=_text(kind),
        agent=_text(agent),
        summary=_text(entry.one("MESSAGE") or event),
        details=details,
        unit=entry.one("_SYSTEMD_UNIT") or "",
        uid=int(uid) if uid.isdecimal() else None,
        for_agents=event != GOVERNOR_ESCALATION.name,  # for a human; telling an agent could raise the next
        except_way=_except_way(event, details),
    )


def _raised_us(entry: JournalEntry) -> int:
    """When it was raised: before it was written, where it had to wait for the journal."""
    said = entry.one("MULTICLAW_TIME")
    try:
        return entry.place.time_us if said is None else from_iso(said)
    except ValueError:
        return entry.place.time_us


def _text(value: str) -> str:
    """NUL is the one character that no message carries."""
    return value.replace("\0", "\\x00")


def _except_way(event: str, details: Any) -> str:
    """Whom an alarm must not be told by: the way that failed, which would fail again and raise the next alarm."""
    named = details.get("way") if event == WATCH_UNDELIVERED.name and isinstance(details, dict) else None
    return named if isinstance(named, str) else ""


def _ignored(reason: Literal["forged", "unknown-writer"], event: str, entry: JournalEntry) -> Ignored:
    return Ignored(reason, event, entry.one("_UID") or "", entry.one("_SYSTEMD_UNIT") or "")


def _details(text: str | None) -> Any:
    """What our processes wrote as JSON; what is none stays the text it is."""
    if text is None:
        return None
    try:
        return decode(text.encode())
    except Problem:
        return text
