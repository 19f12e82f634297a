"""What the messages about a task say of its state."""

import pytest

from adapter.core.tasks import Step, state_of, view


def steps(*intents, parent=None):
    return [
        Step("t", parent, "product", n, "2027-01-15T08:00:00.000000Z", "pm", f"task.{intent}/1", intent)
        for n, intent in enumerate(intents, 1)
    ]


@pytest.mark.parametrize(
    ("intents", "state"),
    [
        ([], "unknown"),
        (["inform", "query"], "unknown"),
        (["assign"], "assigned"),
        (["assign", "accept"], "accepted"),
        (["assign", "decline"], "declined"),
        (["assign", "accept", "progress", "inform"], "in-progress"),
        (["assign", "accept", "result"], "done"),
        (["assign", "cancel", "progress"], "cancelled"),
        (["assign", "cancel", "result"], "cancelled"),
        (["assign", "result", "cancel"], "done"),
        (["assign", "decline", "assign"], "assigned"),
    ],
)
def test_the_state_is_that_of_the_last_step_that_counts(intents, state):
    """A final state is left only by a new assignment."""
    assert state_of(steps(*intents)) == state


def test_a_view_names_every_step_and_the_first_parent():
    """The first word on the parent counts."""
    found = view("t", [*steps("assign"), *steps("progress", parent="p"), *steps("result", parent="q")])
    assert (found["parent_task_id"], found["state"], len(found["steps"])) == ("p", "done", 3)
    assert found["steps"][0] == {
        "channel": "product",
        "channel_sequence_id": 1,
        "timestamp_iso8601": "2027-01-15T08:00:00.000000Z",
        "sender": "pm",
        "type": "task.assign/1",
    }


def test_a_task_without_a_parent_says_so():
    """Null, not absent."""
    assert view("t", steps("assign"))["parent_task_id"] is None
