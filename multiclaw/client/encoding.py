"""JSON on its way out: what Python would write but JSON has no word for is refused before anything is sent.

Encoding comes first, since it nearly always succeeds; only its failure pays for the walk that names the offender.
Mapping keys that are not strings become strings, as `json` has it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from multiclaw.client.errors import InvalidMessage

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DEPTH_MAX: Final = 64
"""Nesting that a sidecar takes; the walk need not look deeper."""


def encode(value: Any, field: str = "") -> bytes:
    """Compact UTF-8 JSON of `value`; raises `InvalidMessage` with a pointer that begins with `field`."""
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise _explain(value, field, error) from error


def _explain(value: Any, field: str, error: Exception) -> InvalidMessage:
    found = _offender(value, field, 0)
    if found is not None:
        return InvalidMessage(found[1], found[0])
    return InvalidMessage(f"it cannot be written as JSON: {error}", field)


def _offender(value: Any, field: str, depth: int) -> tuple[str, str] | None:
    """Where the first value is that JSON cannot carry, and why."""
    if depth > _DEPTH_MAX:
        return field, f"it nests deeper than {_DEPTH_MAX} levels"
    if isinstance(value, Mapping):
        parts = [(str(key), item) for key, item in value.items()]
        bad_key = next((key for key, _ in parts if _surrogate(key)), None)
        if bad_key is not None:
            return field, f"its key {bad_key!r} holds a lone surrogate, which is no character"
    elif isinstance(value, list | tuple):
        parts = [(str(index), item) for index, item in enumerate(value)]
    else:
        fault = _scalar_fault(value)
        return None if fault is None else (field, fault)
    inner = (_offender(item, f"{field}/{_escape(name)}", depth + 1) for name, item in parts)
    return next((fault for fault in inner if fault is not None), None)


def _scalar_fault(value: Any) -> str | None:
    if isinstance(value, str):
        return "it holds a lone surrogate, which is no character" if _surrogate(value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is not a JSON number"
    if value is None or isinstance(value, int):
        return None
    return f"a {type(value).__name__} is not JSON; send text, numbers, lists and mappings"


def _surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _escape(name: str) -> str:
    return name.encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")
