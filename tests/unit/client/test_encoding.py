"""What cannot be JSON is refused before it leaves, and by its place."""

import json
from datetime import UTC, datetime

import pytest

from multiclaw import InvalidMessage
from multiclaw.client import identifiers
from multiclaw.client.encoding import encode
from multiclaw.client.outgoing import check_names, outgoing


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (float("nan"), "/payload"),
        ({"a": [1, float("inf")]}, "/payload/a/1"),
        ({"a": {"b/c~": "x\ud83d"}}, "/payload/a/b~1c~0"),
        ({"a": {"\udc00": 1}}, "/payload/a"),
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "/payload/when"),
        ({"s": {1, 2}}, "/payload/s"),
    ],
)
def test_the_offender_is_named(payload, field):
    """A value that JSON cannot carry raises a ValueError with the pointer of that value."""
    with pytest.raises(InvalidMessage) as caught:
        outgoing({"to": "pm", "type": "note/1", "payload": payload})
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


def test_what_contains_itself_is_refused():
    """Neither a circle nor bottomless nesting ends in a RecursionError."""
    circle: list = []
    circle.append(circle)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(InvalidMessage):
            encode(value)


def test_text_travels_as_utf8():
    """Any character is written as itself, and the bytes decode to the same value."""
    value = {"é": "\U0001f600 \u2028 \x01", "n": [1, -1.5, True, None]}
    encoded = encode(value)
    assert json.loads(encoded) == value
    assert "\U0001f600".encode() in encoded


def test_none_is_left_out_but_is_a_payload():
    """Fields that are None are not sent; a null payload is."""
    body = json.loads(outgoing({"to": "pm", "type": "note/1", "payload": None, "task_id": None}).body)
    assert set(body) == {"to", "type", "payload", "idempotency_key"}


def test_times_need_an_offset():
    """An aware datetime becomes RFC 3339; a naive one is refused, since nobody could tell what it means."""
    message = {"to": "pm", "type": "note/1", "payload": 1}
    body = json.loads(outgoing({**message, "deadline": datetime(2026, 1, 1, tzinfo=UTC)}).body)
    assert body["deadline"] == "2026-01-01T00:00:00+00:00"
    with pytest.raises(InvalidMessage, match="/deadline"):
        outgoing({**message, "deadline": datetime(2026, 1, 1)})  # noqa: DTZ001 - naive on purpose


def test_unknown_names_are_refused():
    """A misspelt field is an error, not a field that is lost."""
    with pytest.raises(InvalidMessage, match="/taskid"):
        outgoing({"to": "pm", "type": "note/1", "payload": 1, "taskid": "t"})
    with pytest.raises(TypeError, match="taskid"):
        check_names({"taskid": "t"})


def test_keys_are_ordered_in_time(monkeypatch):
    """Keys made later sort later, are UUIDs of version 7, and never repeat."""
    moments = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 1_000_000))
    monkeypatch.setattr(identifiers.time, "time_ns", lambda: next(moments))
    keys = [identifiers.new_key() for _ in range(1_000)]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert {key[14] for key in keys} == {"7"}
    assert {key[19] for key in keys} <= set("89ab")
