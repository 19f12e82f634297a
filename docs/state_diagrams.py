"""`python -m docs.state_diagrams`: the state diagrams of ARCHITECTURE.md, drawn from the tables that the code obeys.

A further machine is one more line of `MACHINES`. A test fails when the document does not show the tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from adapter.core import appointment, delivery, membership, replay_job

DOCUMENT: Final = Path(__file__).with_name("ARCHITECTURE.md")
BEGIN: Final = "<!-- state diagrams: written by `python -m docs.state_diagrams` -->\n"
END: Final = "<!-- state diagrams end -->\n"


@dataclass(frozen=True, slots=True)
class Machine:
    """A state machine: its states' enum, first the one it starts in, and the table that its module owns.

    `notes` are shown beside the events they belong to.
    """

    title: str
    module: str
    states: type[Enum]
    transitions: Mapping[tuple[Any, Any], Any]
    notes: Mapping[Any, str] = field(default_factory=dict)


MACHINES: Final = (
    Machine("A delivery", "adapter/core/delivery.py", delivery.State, delivery.TRANSITIONS, delivery.REASONS),
    Machine("A scheduled send", "adapter/core/appointment.py", appointment.AppointmentState, appointment.TRANSITIONS),
    Machine("A replay job", "adapter/core/replay_job.py", replay_job.JobState, replay_job.TRANSITIONS),
    Machine("A version of the topology", "adapter/core/membership.py", membership.Standing, membership.TRANSITIONS),
)  # fmt: skip


def diagram(machine: Machine) -> str:
    """A machine in Mermaid: one arrow for each two states, with its events in the table's order."""
    events: dict[tuple[Enum, Enum], list[str]] = {}
    for (source, event), target in machine.transitions.items():
        events.setdefault((source, target), []).append(_label(machine, event))
    leaving = {source for source, _ in events}
    lines = ["stateDiagram-v2"]
    lines += [f'state "{_word(state)}" as {_name(state)}' for state in machine.states if _word(state) != _name(state)]
    lines.append(f"[*] --> {_name(next(iter(machine.states)))}")
    lines += [f"{_name(source)} --> {_name(target)}: {', '.join(words)}" for (source, target), words in events.items()]
    lines += [f"{_name(state)} --> [*]" for state in machine.states if state not in leaving]
    body = "\n    ".join(lines)
    return f"{machine.title} (`{machine.module}`):\n\n```mermaid\n{body}\n```\n"


def updated(document: str) -> str:
    """The document with the diagrams as they must be; raises `ValueError` where the marks are missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the marks between which the diagrams stand are missing")
    diagrams = "\n".join(diagram(machine) for machine in MACHINES)
    return f"{before}{BEGIN}\n{diagrams}\n{END}{after}"


def _label(machine: Machine, event: Enum) -> str:
    note = machine.notes.get(event)
    return _word(event) if note is None else f"{_word(event)} ({note})"


def _word(member: Enum) -> str:
    return member.name.lower().replace("_", "-")


def _name(member: Enum) -> str:
    return member.name.lower()


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
