"""Which steps a store needs."""

import pytest

from shared.config import ConfigurationFault
from shared.database.migrations import Migration, plan, statements

STEPS = (Migration(2, ""), Migration(3, ""))


@pytest.mark.parametrize(("said", "numbers"), [(0, [2, 3]), (1, [2, 3]), (2, [3]), (3, [])])
def test_an_older_store_takes_the_steps_above_its_version(said: int, numbers: list[int]) -> None:
    """In order; one that does not say is of version 1."""
    assert [step.number for step in plan(said, STEPS, is_new=False)] == numbers


def test_a_new_store_takes_no_step() -> None:
    """It is made as it is now."""
    assert plan(0, STEPS, is_new=True) == []


def test_a_newer_store_is_a_configuration_error() -> None:
    """It tells what it is and what is known."""
    with pytest.raises(ConfigurationFault, match="version 4, and this program knows 3"):
        plan(4, STEPS, is_new=False)


@pytest.mark.parametrize("numbers", [[3], [2, 4], [3, 2], [1, 2]])
def test_a_hole_in_the_numbers_is_refused(numbers: list[int]) -> None:
    """Else a step would be skipped in silence."""
    with pytest.raises(ValueError, match="without a hole"):
        plan(1, [Migration(number, "") for number in numbers], is_new=False)


def test_a_script_is_cut_into_its_statements() -> None:
    """Semicolons in comments, texts and triggers end none; what follows the last one counts."""
    trigger = "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  DELETE FROM a;\nEND;\n"
    script = f"-- first; one\nCREATE TABLE a (b TEXT DEFAULT ';');\n{trigger}DROP TABLE a"
    cut = list(statements(script))
    assert [part.splitlines()[-1] for part in cut] == ["CREATE TABLE a (b TEXT DEFAULT ';');", "END;", "DROP TABLE a"]
