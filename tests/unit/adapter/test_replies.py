"""A reply takes over the thread of what it answers."""

import pytest

from adapter.core.replies import inherit
from shared.problems import Problem
from shared.strict_json import encode
from tests.support.factories import envelope, send

ORIGINAL = encode(envelope(thread_id="th", correlation_id="co"))


def reply(*, last=5, stored=ORIGINAL, to="product", **fields):
    asked = []

    def envelope_at(channel, sequence):
        asked.append((channel, sequence))
        return stored

    message = send("qa", to, **{"reply_to_sequence_id": 3} | fields)
    return inherit(message, lambda _channel: last, envelope_at), asked


def test_what_is_left_out_is_inherited_and_listed():
    """The receiver can tell what the sender did not sign."""
    found, asked = reply()
    assert (found["thread_id"], found["correlation_id"]) == ("th", "co")
    assert found["inherited"] == ["thread_id", "correlation_id"]
    assert asked == [("product", 3)]


def test_what_the_reply_says_itself_stands():
    """Inheritance never overwrites."""
    found, _ = reply(thread_id="own")
    assert (found["thread_id"], found["correlation_id"]) == ("own", "co")
    assert found["inherited"] == ["correlation_id"]


def test_a_message_that_is_no_reply_is_left_alone():
    """Nothing is looked up."""
    found, asked = reply(reply_to_sequence_id=None)
    assert "inherited" not in found
    assert asked == []


def test_a_direct_reply_answers_what_came_to_the_replier():
    """Its number is one of the replier's own direct channel."""
    _, asked = reply(to="@pm")
    assert asked == [("@qa", 3)]


@pytest.mark.parametrize("stored", [None, encode(envelope()), encode(envelope(thread_id=None))])
def test_there_may_be_nothing_to_inherit(stored):
    """The original is pruned, or has no thread of its own."""
    found, _ = reply(stored=stored)
    assert "inherited" not in found
    assert "thread_id" not in found


def test_a_reply_to_the_future_is_refused():
    """The newest number is named."""
    with pytest.raises(Problem, match="newest is 2") as caught:
        reply(last=2)
    assert (caught.value.kind, caught.value.field) == ("invalid-field", "/reply_to_sequence_id")
