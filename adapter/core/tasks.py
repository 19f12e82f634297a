"""What the messages about a task say of its state."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_STATE_AFTER: Final[dict[str, str]] = {
    "assign": "assigned",
    "accept": "accepted",
    "decline": "declined",
    "progress": "in-progress",
    "result": "done",
    "cancel": "cancelled",
}
_FINAL: Final = frozenset({"done", "cancelled", "declined"})


@dataclass(frozen=True, slots=True)
class Step:
    """One message about a task, in commit order."""

    task_id: str
    parent_task_id: str | None
    channel: str
    sequence: int
    timestamp: str
    sender: str
    type: str
    intent: str


def state_of(steps: Iterable[Step]) -> str:
    """The state after these steps. A final state is left only by a new assignment."""
    state = "unknown"
    for step in steps:
        after = _STATE_AFTER.get(step.intent)
        if after is not None and (state not in _FINAL or after == "assigned"):
            state = after
    return state


def view(task_id: str, steps: list[Step]) -> dict[str, Any]:
    """The `TaskView` of a task."""
    parents = [step.parent_task_id for step in steps if step.parent_task_id is not None]
    return {
        "task_id": task_id,
        "parent_task_id": parents[0] if parents else None,
        "state": state_of(steps),
        "steps": [
            {
                "channel": step.channel,
                "channel_sequence_id": step.sequence,
                "timestamp_iso8601": step.timestamp,
                "sender": step.sender,
                "type": step.type,
            }
            for step in steps
        ],
    }
