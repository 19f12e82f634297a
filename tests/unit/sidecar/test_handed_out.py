"""Hand-overs by delivery id: the newest of a message counts, and the memory is bounded."""

from sidecar.core.handed_out import HandedOut


def test_only_the_newest_hand_over_of_a_message_counts() -> None:
    """Both are known; one is the newest. A stranger is neither."""
    handed: HandedOut[str] = HandedOut()
    for delivery_id, key in (("d0", "a"), ("d1", "b"), ("d2", "a")):
        handed.add(delivery_id, key)
    assert handed.newest(["d0", "d1", "d2", "stranger"]) == {"d1": "b", "d2": "a"}
    assert handed.unknown(["d0", "stranger", "d2"]) == ["stranger"]


def test_a_hand_over_that_did_not_arrive_does_not_bring_back_the_one_before() -> None:
    """The earlier one has ended all the same."""
    handed: HandedOut[str] = HandedOut()
    handed.add("d0", "a")
    handed.add("d1", "a")
    handed.drop("d1")
    handed.drop("stranger")
    assert handed.newest(["d0", "d1"]) == {}
    assert handed.unknown(["d0"]) == []


def test_the_oldest_are_forgotten() -> None:
    """Memory does not grow with the messages of a day, and a message handed out again stays."""
    handed: HandedOut[str] = HandedOut(entries_max=2)
    for delivery_id, key in (("d0", "a"), ("d1", "b"), ("d2", "a")):
        handed.add(delivery_id, key)
    assert handed.unknown(["d0"]) == ["d0"]
    assert handed.newest(["d0", "d1", "d2"]) == {"d1": "b", "d2": "a"}
