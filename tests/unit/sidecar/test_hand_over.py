"""Reading a poll's answer."""

from sidecar.core.hand_over import read_hand_over

_ENVELOPE = {"sender": "pm", "idempotency_key": "k", "to": "product", "channel_sequence_id": 7}


def test_a_hand_over_is_read_and_kept_as_it_came() -> None:
    """What names the message and where it stands; the delivery itself is untouched."""
    delivery = {"delivery_id": "d", "envelope": _ENVELOPE, "more": 1}
    ((handed,), unreadable) = read_hand_over({"messages": [delivery]})
    assert (handed.delivery_id, handed.sender, handed.channel, handed.sequence) == ("d", "pm", "product", 7)
    assert handed.delivery is delivery
    assert unreadable == 0


def test_what_cannot_be_read_is_counted_and_left_out() -> None:
    """A hand-over without its parts, or with parts of another type, never reaches the agent."""
    bad = [
        {},
        {"delivery_id": "d", "envelope": None},
        {"delivery_id": 1, "envelope": _ENVELOPE},
        {"delivery_id": "d", "envelope": _ENVELOPE | {"channel_sequence_id": "7"}},
        {"delivery_id": "d", "envelope": {"sender": "pm"}},
    ]
    assert read_hand_over({"messages": bad}) == ([], len(bad))
    assert read_hand_over({}) == ([], 0)
