"""The table of journal events, and the catalogue made from it."""

import re
from pathlib import Path

from shared.journal_events import EMERGENCY, EVENTS, catalogue

CATALOGUE = Path(__file__).parents[3] / "deploy" / "systemd" / "multiclaw.catalog"


def test_ids_and_names_are_unique() -> None:
    """Each kind can be told from every other by its id and by its name; an id is 128 bits in hex."""
    assert len({event.message_id for event in EVENTS}) == len({event.name for event in EVENTS}) == len(EVENTS)
    assert all(re.fullmatch("[0-9a-f]{32}", event.message_id) for event in EVENTS)
    assert all(re.fullmatch("[a-z-]+", event.name) for event in EVENTS)


def test_ids_never_change() -> None:
    """Operators search by them: these are the ids that were first released."""
    assert EMERGENCY.message_id == "5a2f6a3ce1f64f0b9c8b5d0f5c7b8a11"
    assert [event.message_id[:8] for event in EVENTS] == [
        "5a2f6a3c", "0c04c59e", "08e1c322", "fa283949", "b6e50e9c", "fa33f00d", "b602cf03", "24799544", "cb8258c6",
        "967ba559", "bcbecf7c", "77e5fa82", "43cf025a", "ac59fcf4",
        "1a47ac4d", "e10fda12", "2f487829", "b4c519da",
        "67c53023", "93ebfd48", "907dc931",
    ]  # fmt: skip


def test_the_catalogue_is_made_from_the_table() -> None:
    """The file that is installed explains every event, as the table has it."""
    assert CATALOGUE.read_text(encoding="utf-8") == catalogue()
    assert all(f"-- {event.message_id}\nSubject: {event.title}\n" in catalogue() for event in EVENTS)
