"""JSON as we accept it: I-JSON (RFC 7493) and a little stricter, so that two readers never disagree.

Refused, each with the JSON pointer of the offender where there is one: invalid UTF-8, a BOM, NaN and Infinity,
duplicate keys, lone surrogates, NUL, nesting over 64, and numbers that would not arrive as they were written.

The fast path rests on one observation: text that equals its own re-serialisation cannot hide a duplicate key, a
rounded number or an odd spelling. What is not equal takes the slow path, which checks every value.
"""

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import orjson

from shared.limits import INTEGER_MAX, JSON_DEPTH_MAX
from shared.problems import Problem

# Possessive, and without a need for the closing quote: an endless string costs one pass, not one for each quote.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_TO_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_TOO_DEEP: Final = b"[" * (JSON_DEPTH_MAX + 1)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def encode(value: Any) -> bytes:
    """Compact JSON of a value that came from `decode` or from our own models; keys keep their order."""
    return orjson.dumps(value)


def decode(data: bytes) -> Any:
    """The value of `data`, or a `Problem` that names what is wrong and where."""
    try:
        value = orjson.loads(data)  # which itself refuses what nests deeper than 1,024
    except orjson.JSONDecodeError:
        return _decode_slowly(data)
    if _holds_oddity(value) or b"\\u0000" in data or orjson.dumps(value) != data:
        return _decode_slowly(data)
    return value


def decode_object(data: bytes) -> dict[str, Any]:
    """Like `decode`, for bodies that must be an object."""
    value = decode(data)
    if not isinstance(value, dict):
        raise Problem("invalid-field", f"The body must be a JSON object, not {_kind_of(value)}.", field="")
    return cast("dict[str, Any]", value)


def pointer(path: tuple[str | int, ...]) -> str:
    """The RFC 6901 JSON pointer of a path of keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, duplicates included."""


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Constant(str):
    """`NaN` or an infinity, which are not JSON."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Number, parse_int=_Number, parse_constant=_Constant
)


def _check_depth(data: bytes) -> None:
    """Refuse what is too deep for parsers that recurse, at the speed of `replace` rather than bracket by bracket."""
    if data.count(b"[") + data.count(b"{") <= JSON_DEPTH_MAX:
        return
    rest = _STRING.sub(b"", data).translate(_TO_SQUARE, _NOT_BRACKETS)
    for _ in range(JSON_DEPTH_MAX):
        if _TOO_DEEP in rest:
            break
        rest = rest.replace(b"[]", b"")  # one level less everywhere
    if b"[]" in rest or rest.count(b"[") > JSON_DEPTH_MAX:
        raise Problem("malformed-json", f"The body nests deeper than {JSON_DEPTH_MAX} levels.", field="")


def _holds_oddity(value: Any) -> bool:
    """Whether what equals its own re-serialisation may be refused all the same: for nesting too deep, or for a number
    in it, a wide integer or minus zero. Walked level by level: a body of many messages has many brackets, and looking
    for them in its text would cost more than all the rest.
    """
    level = [[value]]
    for _ in range(JSON_DEPTH_MAX + 1):
        below: list[Any] = []
        for container in level:
            for item in container:
                kind = type(item)
                if kind is str:
                    continue
                if kind is dict:
                    below.append(item.values())
                elif kind is list:
                    below.append(item)
                elif (kind is int or kind is float) and _is_odd(item):
                    return True
        if not below:
            return False
        level = below
    return True


def _is_odd(number: float) -> bool:
    if type(number) is int:
        return not -INTEGER_MAX <= number <= INTEGER_MAX
    return number == 0 and math.copysign(1, number) < 0


def _decode_slowly(data: bytes) -> Any:
    _check_depth(data)
    if data.startswith(b"\xef\xbb\xbf"):
        raise Problem("malformed-json", "The body starts with a byte order mark; send plain UTF-8.", field="")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"The body is not UTF-8: byte {error.start} cannot be read."
        raise Problem("malformed-json", detail, field="") from error
    try:
        raw = _DECODER.decode(text)
    except ValueError as error:
        raise Problem("malformed-json", f"The body is not JSON: {error}.", field="") from error
    return _checked(raw, ())


def _checked(raw: Any, path: tuple[str | int, ...]) -> Any:
    """The plain value of what the decoder kept as written."""
    if isinstance(raw, _Pairs):
        return _checked_object(raw, path)
    if isinstance(raw, list):
        return [_checked(item, (*path, index)) for index, item in enumerate(raw)]
    if isinstance(raw, _Constant):
        raise Problem("invalid-number", f"{raw} is not a JSON number.", field=pointer(path))
    if isinstance(raw, _Number):
        return _checked_number(raw, path)
    if isinstance(raw, str):
        _check_text(raw, path)
    return raw


def _checked_object(pairs: _Pairs, path: tuple[str | int, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        _check_text(key, path)
        if key in result:
            where = pointer((*path, key))
            raise Problem("malformed-json", f"The key {key!r} stands twice in one object.", field=where)
        result[key] = _checked(value, (*path, key))
    return result


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    if "\0" in text:
        raise Problem("invalid-text", "A text holds NUL, which is not carried.", field=pointer(path))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        detail = f"A text holds a lone surrogate (U+{ord(text[error.start]):04X}), which is no character."
        raise Problem("invalid-text", detail, field=pointer(path)) from error


def _checked_number(literal: str, path: tuple[str | int, ...]) -> int | float:
    shown = literal if len(literal) <= 40 else literal[:37] + "..."
    if literal.lstrip("-").isdecimal():
        if len(literal) > 17 or not -INTEGER_MAX <= int(literal) <= INTEGER_MAX:
            detail = f"{shown} is beyond 2^53, where readers begin to round; send it as a string."
            raise Problem("invalid-number", detail, field=pointer(path))
        number: int | float = int(literal)
    else:
        number = float(literal)
        if not _same_value(literal, number):
            detail = f"{shown} would be rounded on its way; send it as a string."
            raise Problem("invalid-number", detail, field=pointer(path))
    if number == 0 and literal.startswith("-"):
        raise Problem("invalid-number", "Minus zero loses its sign on its way; send 0.", field=pointer(path))
    return number


def _same_value(literal: str, number: float) -> bool:
    """Whether the shortest text of `number` is, as a decimal, the literal: then nothing was rounded."""
    try:
        return Decimal(literal) == Decimal(repr(number))
    except InvalidOperation:
        return False


def _kind_of(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
