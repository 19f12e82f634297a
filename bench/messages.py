"""The message of every workload: 2,048 bytes of JSON as an agent writes them."""

import itertools
from dataclasses import dataclass
from typing import Any, Final

from bench.prose import TEXTS, prose
from shared.identifiers import uuid7
from shared.strict_json import encode

MESSAGE_BYTES: Final = 2_048
"""The mean of recorded agent messages, and the size all published figures here were measured with."""

_turns = itertools.cycle(range(TEXTS))


@dataclass(frozen=True, slots=True)
class Message:
    """What an agent sends, whose it is, and the key it is counted by."""

    sender: str
    key: str
    content: dict[str, Any]


def make_message(sender: str, to: str) -> Message:
    """A `note/1` of exactly `MESSAGE_BYTES`, with one text after the other."""
    key = str(uuid7())
    content = {"to": to, "type": "note/1", "payload": {"text": ""}, "idempotency_key": key}
    text = prose(next(_turns))[: MESSAGE_BYTES - len(encode(content))]
    return Message(sender, key, {**content, "payload": {"text": text}})
