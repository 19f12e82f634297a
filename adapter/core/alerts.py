"""Alerts about dead letters: counted by agent and reason, and told once in a window (promise 6).

The first death opens the window; when it ends, one message tells how many there were. What is counted and not told
yet is stored with the deaths, so that a crash in between loses no alert.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from adapter.core.commands import Send
from adapter.core.routing import PLATFORM, order_key
from shared.envelope import content_sha256
from shared.names import ADAPTER
from shared.strict_json import decode_object

Subject = tuple[str, str]
"""An agent, and the reason why messages for it are dead."""

_FAMILY: Final = "alert."
_DEAD_LETTER: Final = "alert.dead-letter/1"


class PendingAlerts:
    """Deaths by subject since the last alert about it. Times are steady microseconds."""

    def __init__(self, window_us: int, stored: Mapping[Subject, int], now_us: int) -> None:
        self._window_us = window_us
        self._counts = {subject: count for subject, count in stored.items() if count}
        self._due = dict.fromkeys(self._counts, now_us + window_us)

    def count(self, subject: Subject, now_us: int) -> int:
        """One more death; gives how many there are."""
        self._due.setdefault(subject, now_us + self._window_us)
        self._counts[subject] = self._counts.get(subject, 0) + 1
        return self._counts[subject]

    def take_due(self, now_us: int) -> dict[Subject, int]:
        """The subjects whose window has ended, with their counts; their next death opens a new one."""
        due = [subject for subject, at in self._due.items() if at <= now_us]
        for subject in due:
            del self._due[subject]
        return {subject: self._counts.pop(subject) for subject in due}

    def next_due_us(self) -> int | None:
        """When a window ends, at the earliest."""
        return min(self._due.values(), default=None)


def is_alert(envelope: bytes) -> bool:
    """Whether a stored message is an alert: when one dies, no alert is raised."""
    return str(decode_object(envelope).get("type")).startswith(_FAMILY)


def dead_letter_alert(subject: Subject, count: int, message_id: int) -> Send:
    """The adapter's own message about `count` deaths; `message_id`, which is never used twice, makes its key.

    It carries no signature: no sidecar sent it, and the link's answer, which is sealed, vouches for it.
    """
    agent, reason = subject
    digest = sha256(f"{_DEAD_LETTER} {message_id}".encode()).hexdigest()[:32]
    key = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
    envelope: dict[str, Any] = {
        "idempotency_key": key,
        "sender": ADAPTER,
        "to": PLATFORM,
        "type": _DEAD_LETTER,
        "payload": {"agent": agent, "reason": reason, "count": count},
    }
    return Send(
        envelope=envelope,
        sender=ADAPTER,
        idempotency_key=bytes.fromhex(digest),
        content_sha256=content_sha256(envelope),
        channel=PLATFORM,
        order_key=order_key(envelope),
        critical=True,
        rate_class="critical",
        keep_forever=False,
        expires_at_us=None,
    )
