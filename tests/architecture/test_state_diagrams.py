"""The state diagrams of the documents are drawn from the tables that the code obeys."""

from enum import Enum, auto

import pytest

from docs.state_diagrams import BEGIN, DOCUMENT, END, MACHINES, Machine, diagram, updated


class Light(Enum):
    """States of a small machine."""

    RED = auto()
    RED_AMBER = auto()
    OFF = auto()


class Turn(Enum):
    """Its events."""

    WAIT = auto()
    CUT_POWER = auto()
    FAIL = auto()


TABLE = {
    (Light.RED, Turn.WAIT): Light.RED_AMBER,
    (Light.RED, Turn.CUT_POWER): Light.OFF,
    (Light.RED_AMBER, Turn.WAIT): Light.RED,
    (Light.RED, Turn.FAIL): Light.OFF,
}


def test_the_document_shows_the_tables() -> None:
    """Run `python -m docs.state_diagrams` when this fails: a table has changed."""
    document = DOCUMENT.read_text(encoding="utf-8")
    assert updated(document) == document


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_transition_is_drawn(machine: Machine) -> None:
    """Each event stands on an arrow between its two states."""
    drawn = diagram(machine).splitlines()
    for (source, event), target in machine.transitions.items():
        arrows = [line for line in drawn if f"{source.name} --> {target.name}:".lower() in line]
        assert len(arrows) == 1
        words = [label.partition(" (")[0] for label in arrows[0].partition(": ")[2].split(", ")]
        assert event.name.lower().replace("_", "-") in words
    assert (DOCUMENT.parents[1] / machine.module).is_file()


def test_a_diagram_is_the_table_in_mermaid() -> None:
    """One arrow for two states, the first one entered, the final ones left, names of two words spelt out, notes."""
    assert diagram(Machine("A light", "light.py", Light, TABLE, {Turn.FAIL: "blown"})) == (
        "A light (`light.py`):\n\n"
        "```mermaid\n"
        "stateDiagram-v2\n"
        '    state "red-amber" as red_amber\n'
        "    [*] --> red\n"
        "    red --> red_amber: wait\n"
        "    red --> off: cut-power, fail (blown)\n"
        "    red_amber --> red: wait\n"
        "    off --> [*]\n"
        "```\n"
    )


@pytest.mark.parametrize("document", ["", BEGIN, END, END + BEGIN])
def test_a_document_without_its_marks_is_not_written(document: str) -> None:
    """Whoever lost a mark is told so; nothing is put at a guessed place."""
    with pytest.raises(ValueError, match="marks"):
        updated(document)
