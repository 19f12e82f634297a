"""Strict JSON over generated documents: both paths agree with each other and with the standard library."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.limits import INTEGER_MAX
from shared.problems import Problem
from shared.strict_json import decode, encode

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers(-INTEGER_MAX, INTEGER_MAX) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: str(number) != "-0.0"
)
scalars = st.none() | st.booleans() | texts | numbers
documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)
literals = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def shape(value: Any) -> Any:
    """The value with the type of each leaf and the order of keys, which `==` alone does not compare."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return (type(value).__name__, value)


@given(documents)
def test_what_is_encoded_decodes_to_itself(document: Any) -> None:
    """decode(encode(x)) is x: values, types and key order."""
    assert shape(decode(encode(document))) == shape(document)


@given(documents, st.sampled_from([None, 0, 2]), st.booleans())
def test_any_spelling_decodes_to_the_same_value(document: Any, indent: int | None, ascii_only: bool) -> None:
    """The slow path reads a spaced, escaped spelling to what the fast path reads from the compact one."""
    spelled = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    assert shape(decode(spelled)) == shape(decode(encode(document)))


@settings(max_examples=500)
@given(literals)
def test_an_accepted_number_keeps_its_value(literal: str) -> None:
    """A number literal is refused, or its re-serialisation is the same decimal."""
    try:
        value = decode(literal.encode())
    except Problem as problem:
        assert problem.kind == "invalid-number"  # noqa: PT017 - refusing is one of two right outcomes
        return
    assert Decimal(encode(value).decode()) == Decimal(literal)
    assert not (literal.startswith("-") and value == 0)


@given(st.dictionaries(texts, documents, min_size=1), st.data())
def test_a_repeated_key_is_refused_wherever_it_stands(body: dict[str, Any], data: st.DataObject) -> None:
    """An object with any of its keys written twice, in any spelling and depth, is refused."""
    key = data.draw(st.sampled_from(list(body)))
    ascii_only = data.draw(st.booleans())
    members = [json.dumps(k, ensure_ascii=ascii_only) + ":" + json.dumps(v) for k, v in body.items()]
    members.insert(data.draw(st.integers(0, len(members))), json.dumps(key) + ":1")
    text = "{" + ",".join(members) + "}"
    for _ in range(data.draw(st.integers(0, 5))):
        text = '{"inner":[' + text + "]}"
    with pytest.raises(Problem) as caught:
        decode(text.encode())
    assert caught.value.kind == "malformed-json"


@settings(max_examples=500)
@given(st.binary() | st.text('{}[]",:\\u0de1.-+ \n', max_size=60).map(str.encode))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """No byte string does anything but decode, to what the standard library reads too, or raise a problem."""
    try:
        value = decode(data)
    except Problem:
        return
    assert value == json.loads(data)
