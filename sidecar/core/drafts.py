"""A draft: what an agent asked to send, checked, stamped and ready to be signed when it leaves."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from shared.api import SendRequest
from shared.envelope import KEY_PATTERN
from shared.limits import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, JSON_DEPTH_MAX
from shared.model import check
from shared.problems import Problem
from shared.strict_json import decode, encode

KEY_HEADER: Final = "Idempotency-Key"

_SIGNATURE_BYTES_MAX: Final = 512
"""What a signature adds to an envelope: 64 hex digits, a key id of up to 128 characters, a time, and their names."""

_WRAPPING: Final = 2
"""On the link an envelope stands in a list in an object, and the whole may not nest deeper than any other JSON."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An unsigned envelope and its encoded form."""

    key: str
    envelope: dict[str, Any]
    encoded: bytes


def make_draft(
    body: dict[str, Any], header_key: str | None, *, agent: str, bytes_max: int, new_key: Callable[[], str]
) -> Draft:
    """The draft of a `SendRequest` body, or a `Problem` that names the field.

    The wire form is the checked body itself, less top-level nulls (which say nothing, except as a payload).
    """
    check(SendRequest, body)
    if body.get("sender") not in (None, agent):
        detail = f"This sidecar sends as {agent!r}; leave `sender` out."
        raise Problem("sender-forged", detail, field="/sender")
    key = _key(body.get("idempotency_key"), header_key) or new_key()
    content = {name: value for name, value in body.items() if value is not None or name == "payload"}
    envelope = {**content, "idempotency_key": key, "sender": agent}
    encoded = encode(envelope)
    if len(encoded) > bytes_max:
        detail = f"The message has {len(encoded)} bytes, and the limit is {bytes_max}; send large work as a file."
        raise Problem("message-too-large", detail, field="")
    _check_depth(encoded)
    return Draft(key, envelope, encoded)


def count_to_send(sizes: Iterable[int]) -> int:
    """How many messages of these encoded sizes the next batch takes: at least one, so that none is ever stuck."""
    total = 0
    count = 0
    for size in sizes:
        total += size + _SIGNATURE_BYTES_MAX
        if count and (count == BATCH_MESSAGES_MAX or total > BATCH_BYTES_MAX):
            break
        count += 1
    return count


def _key(field: str | None, header: str | None) -> str | None:
    if header is None:
        return field
    if not re.fullmatch(KEY_PATTERN, header):  # as strict as the field: what is queued must be taken later
        raise Problem("invalid-field", "An idempotency key is a UUID.", field=f"header {KEY_HEADER}")
    if field is not None and field != header:
        detail = "The header and the field name different idempotency keys; send one."
        raise Problem("invalid-field", detail, field=f"header {KEY_HEADER}")
    return header


def _check_depth(encoded: bytes) -> None:
    if encoded.count(b"[") + encoded.count(b"{") <= JSON_DEPTH_MAX - _WRAPPING:
        return
    try:
        decode(b"[" * _WRAPPING + encoded + b"]" * _WRAPPING)
    except Problem as problem:
        detail = f"The message nests deeper than {JSON_DEPTH_MAX - _WRAPPING} levels, itself included."
        raise Problem("malformed-json", detail, field="") from problem
