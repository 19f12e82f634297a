"""The message of every workload: 2,048 bytes of JSON as an agent writes them."""

from dataclasses import dataclass
from typing import Any, Final

from shared.identifiers import uuid7
from shared.strict_json import encode

MESSAGE_BYTES: Final = 2_048
"""The mean of recorded agent messages, and the size all published figures here were measured with."""

_PROSE: Final = (
    "The review is done and the tests pass; two findings are open and the receipt is in the file store. " * 32
)


@dataclass(frozen=True, slots=True)
class Message:
    """What an agent sends, whose it is, and the key it is counted by."""

    sender: str
    key: str
    content: dict[str, Any]


def make_message(sender: str, to: str) -> Message:
    """A `note/1` of exactly `MESSAGE_BYTES`."""
    key = str(uuid7())
    content = {"to": to, "type": "note/1", "payload": {"text": ""}, "idempotency_key": key}
    text = _PROSE[: MESSAGE_BYTES - len(encode(content))]
    return Message(sender, key, {**content, "payload": {"text": text}})
