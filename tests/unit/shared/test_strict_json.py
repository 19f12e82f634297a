"""What strict JSON refuses, and where it says the fault is."""

import json
import time

import pytest

from shared.problems import Problem
from shared.strict_json import decode, decode_object, pointer

WIDEST = 2**53 - 1


def refusal(data: bytes) -> Problem:
    """The problem that `data` meets."""
    with pytest.raises(Problem) as caught:
        decode(data)
    return caught.value


@pytest.mark.parametrize(
    ("data", "kind", "field"),
    [
        (b'{"a":"\xff"}', "malformed-json", ""),
        (b'"\xed\xa0\x80"', "malformed-json", ""),  # a surrogate, encoded as if it were a character
        (b'"\xc0\x80"', "malformed-json", ""),  # an overlong NUL
        (b'\xef\xbb\xbf{"a":1}', "malformed-json", ""),
        ('{"a":1}'.encode("utf-16"), "malformed-json", ""),
        (b"", "malformed-json", ""),
        (b" \n", "malformed-json", ""),
        (b'{"a":1} x', "malformed-json", ""),
        (b'{"a":1}{"a":1}', "malformed-json", ""),
        (b'{"a":1,}', "malformed-json", ""),
        (b"{'a':1}", "malformed-json", ""),
        (b'"\x01"', "malformed-json", ""),
        (b"01", "malformed-json", ""),
        (b"1.", "malformed-json", ""),
        ("１".encode(), "malformed-json", ""),  # noqa: RUF001 - a digit for Python's `\d`, not for JSON
        (b'{"a":NaN}', "invalid-number", "/a"),
        (b"[0,Infinity]", "invalid-number", "/1"),
        (b'{"a":[-Infinity]}', "invalid-number", "/a/0"),
        (b'{"a":1e400}', "invalid-number", "/a"),
        (b'{"a":-1e400}', "invalid-number", "/a"),
        (b'{"a":1e99999999999999999999}', "invalid-number", "/a"),
        (b'{"a":-0}', "invalid-number", "/a"),
        (b'{"a":-0.0}', "invalid-number", "/a"),
        (b'{"a":-0e7}', "invalid-number", "/a"),
        (b'{"a/b":{"c~d":[1e-400]}}', "invalid-number", "/a~1b/c~0d/0"),
        (b'{"a":0.10000000000000000001}', "invalid-number", "/a"),
        (b'{"a":9007199254740993.0}', "invalid-number", "/a"),
        (b'{"a":12345678901234567890}', "invalid-number", "/a"),
        (b'{"to":1,"to":1}', "malformed-json", "/to"),
        (b'{"to":1,"t\\u006f":2}', "malformed-json", "/to"),
        (b'{"a":[{"b":1,"c":2,"b":3}]}', "malformed-json", "/a/0/b"),
        (b'{"a":"\\ud83d"}', "invalid-text", "/a"),
        (b'{"a":["x","\\ude00\\ud83d"]}', "invalid-text", "/a/1"),
        (b'{"a":{"\\ud83d":1}}', "invalid-text", "/a"),
        (b'{"\\udc00":1}', "invalid-text", ""),
        (b'{"a":"x\\u0000y"}', "invalid-text", "/a"),
        (b'{"a":{"x\\u0000":1}}', "invalid-text", "/a"),
        (b'{"a":"x\x00y"}', "malformed-json", ""),
    ],
)
def test_refusals_name_the_kind_and_the_place(data: bytes, kind: str, field: str) -> None:
    """Each unacceptable document is refused with its kind and the JSON pointer of the offender."""
    problem = refusal(data)
    assert (problem.kind, problem.field) == (kind, field)


@pytest.mark.parametrize("layout", [b"%s", b" %s ", b'{"n":%s}', b'[ {"n" : [%s]} ]'])
def test_integers_end_where_readers_begin_to_round(layout: bytes) -> None:
    """Integers up to 2^53-1 pass in every position, the next ones are refused, in both spellings of a document."""
    for number in (WIDEST, -WIDEST):
        assert json.loads(layout % str(number).encode()) == decode(layout % str(number).encode())
    for number in (WIDEST + 1, -WIDEST - 1):
        assert refusal(layout % str(number).encode()).kind == "invalid-number"


@pytest.mark.parametrize("literal", [b"9" * 5_000, b"-" + b"9" * 5_000, b"0." + b"1" * 5_000, b"1e" + b"9" * 5_000])
def test_endless_numbers_are_refused_with_a_short_word(literal: bytes) -> None:
    """A number of 5,000 digits neither trips Python's digit limit nor comes back in full."""
    problem = refusal(b'{"a":' + literal + b"}")
    assert problem.kind == "invalid-number"
    assert len(problem.detail) < 200


@pytest.mark.parametrize("literal", ["1.0", "1.50", "1e2", "1E+2", "0.0", "0e9", "5e-324", "1.7976931348623157e308"])
def test_other_spellings_of_a_number_pass(literal: str) -> None:
    """A spelling that differs from ours is accepted where its value stays."""
    assert decode(literal.encode()) == float(literal)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_64_passes_and_65_does_not(opening: bytes, closing: bytes) -> None:
    """The bound of 64 levels is exact, for arrays and objects."""
    assert decode(opening * 64 + b"1" + closing * 64) is not None
    problem = refusal(opening * 65 + b"1" + closing * 65)
    assert (problem.kind, problem.field) == ("malformed-json", "")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 65 + b'"' + b'\\"' * 100_000,  # a string that never ends must not be sought from each of its quotes
        b'"' + b'\\"[' * 100_000,
        b"]" * 100_000 + b"[" * 100_000,
    ],
    ids=["arrays", "objects", "closed", "endless string", "brackets in an endless string", "closed first"],
)
def test_deep_or_endless_bodies_are_refused_at_once(data: bytes) -> None:
    """A hostile body of 100,000 brackets or quotes costs milliseconds of work (best of three, under 50 ms)."""
    seconds = []
    for _ in range(3):
        began = time.thread_time()
        assert refusal(data).kind == "malformed-json"
        seconds.append(time.thread_time() - began)
    assert min(seconds) < 0.05


def test_brackets_in_strings_are_not_depth() -> None:
    """A text that holds 1,000 nested arrays as characters is a flat document."""
    text = "[" * 1_000 + '\\"{' + "]" * 1_000
    assert decode(json.dumps({"code": text}).encode()) == {"code": text}


def test_only_objects_are_bodies() -> None:
    """`decode_object` names what it got instead of an object."""
    for data, word in ((b"[]", "an array"), (b"1", "a number"), (b"true", "a boolean"), (b"null", "null")):
        with pytest.raises(Problem, match=word) as caught:
            decode_object(data)
        assert (caught.value.kind, caught.value.field) == ("invalid-field", "")
    assert decode_object(b'{"a":1}') == {"a": 1}


def test_pointers_escape_as_rfc_6901_says() -> None:
    """`~` and `/` in keys are escaped in that order."""
    assert pointer(("a~/b", 0, "")) == "/a~0~1b/0/"
