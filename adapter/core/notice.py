"""What is said of a message to the Human Governor outside of the deployment, and when it is said again."""

from dataclasses import dataclass
from typing import Any, Final

from adapter.core.retry import RetryPolicy
from shared.strict_json import decode_object
from shared.times import MICROSECONDS

_SUMMARY_CHARS_MAX: Final = 1_000

_RETRY: Final = RetryPolicy(attempts_max=0, base_us=MICROSECONDS, cap_us=300 * MICROSECONDS)
"""There is no last attempt: a human must hear of it. A webhook that was down for a night is told in five minutes."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message of the inbox, for people and programs that do not poll."""

    sequence: int
    type: str
    sender: str
    summary: str
    envelope: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """For the configured command and webhook."""
        return {
            "channel": self.envelope["to"],
            "channel_sequence_id": self.sequence,
            "type": self.type,
            "sender": self.sender,
            "summary": self.summary,
            "envelope": self.envelope,
        }


def notice_of(sequence: int, stored: bytes) -> Notice:
    """The notice of a stored message; its summary is the payload's own, where it has one that is a text."""
    envelope = decode_object(stored)
    kind, sender, payload = envelope["type"], envelope["sender"], envelope["payload"]
    said = payload.get("summary") if isinstance(payload, dict) else None
    summary = said if isinstance(said, str) and said else f"{kind} from {sender}"
    return Notice(sequence, kind, sender, summary[:_SUMMARY_CHARS_MAX], envelope)


def retry_seconds(failures: int) -> float:
    """The wait after that many failures in a row."""
    return _RETRY.delay_us(failures, 1.0) / MICROSECONDS
