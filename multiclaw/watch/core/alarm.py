"""An alarm: what everybody who is told of it is told."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self
from uuid import UUID, uuid5

from shared.times import iso

CONTRACT: Final = "alarm/1"
"""As which an alarm goes to an agent."""

_NAMESPACE: Final = UUID("c8b1c1c4-0d3e-4a2f-9a4b-5f1f6d0e7a35")
"""Of the ids of alarms; never changed, since an id is the key under which an agent is told only once."""

_SUMMARY_CHARS_MAX: Final = 2_000
_DETAILS_CHARS_MAX: Final = 16_384
"""What an agent gets of an alarm: with every character escaped this is well under an envelope of 256 KiB."""

_SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
"""As syslog(3) and journalctl call the priorities."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. `entry` identifies it where it was read; `id` is made of that, and the same for the same entry.

    `unit` and `uid` are what journald, or the file system, says of the writer. `agent` is the one it is about; it is
    empty where there is none. `for_agents`: whether agents are told. `except_way`: who is not told, since the alarm is
    that it could not be told.
    """

    id: str
    entry: str
    source: str
    time_us: int
    priority: int
    event: str
    kind: str
    agent: str
    summary: str
    details: Any
    unit: str
    uid: int | None
    for_agents: bool = True
    except_way: str = ""

    def document(self) -> dict[str, Any]:
        """For programs: the whole alarm."""
        return {
            "id": self.id,
            "time": iso(self.time_us),
            "priority": self.priority,
            "severity": self.severity,
            "event": self.event,
            "kind": self.kind,
            "agent": self.agent,
            "summary": self.summary,
            "details": self.details,
            "unit": self.unit,
            "uid": self.uid,
            "source": self.source,
            "entry": self.entry,
        }

    def payload(self) -> dict[str, Any]:
        """For an agent: the same, cut to what a message carries. The same alarm gives the same bytes, whenever."""
        document = self.document()
        document["summary"] = self.summary[:_SUMMARY_CHARS_MAX]
        if len(json.dumps(self.details, ensure_ascii=False)) > _DETAILS_CHARS_MAX:
            document["details"] = {"cut": True, "see": "the journal"}
        return document

    def line(self) -> str:
        """For people."""
        about = f" {self.agent}" if self.agent else ""
        kind = "" if self.kind in {"", self.agent} else f" ({self.kind})"
        return f"{iso(self.time_us)} {self.severity} {self.event}{about}{kind}: {self.summary}"

    @property
    def severity(self) -> str:
        """The priority as a word."""
        return _SEVERITIES[self.priority]

    def stored(self) -> dict[str, Any]:
        """For `restored`."""
        return asdict(self)

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> Self:
        """An alarm that was stored; raises `TypeError` for anything else."""
        return cls(**stored)


def alarm_id(entry: str) -> str:
    """The id of the alarm that this entry raises: a UUID, the idempotency key of the message that tells of it."""
    return str(uuid5(_NAMESPACE, entry))
