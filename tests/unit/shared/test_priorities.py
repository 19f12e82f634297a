"""Which types are critical, by the contracts' own files."""

import json
import os
from pathlib import Path

import pytest

from adapter.contracts import load_registry
from shared.config import RATES_DEFAULT
from shared.priorities import Priorities


def _contract(folder: Path, kind: str, priority: str) -> None:
    (folder / f"{kind.replace('/', '.')}.json").write_text(json.dumps({"type": kind, "priority": priority}))


def test_it_says_what_the_adapter_says() -> None:
    """Of every shipped contract; of a type that nobody knows it says no."""
    priorities = Priorities(Path("/nonexistent"))
    for definition in load_registry(Path("/nonexistent"), RATES_DEFAULT).definitions():
        assert priorities.critical(definition.type) == (definition.priority == "critical")
    assert not priorities.critical("nothing/1")


def test_a_contract_that_was_added_is_known(tmp_path: Path) -> None:
    """Without a restart, as soon as it is asked for."""
    _contract(tmp_path, "stop.all/1", "critical")
    priorities = Priorities(tmp_path)
    assert priorities.critical("stop.all/1")
    assert not priorities.critical("stop.now/1")
    _contract(tmp_path, "stop.now/1", "critical")
    os.utime(tmp_path, ns=(0, 1))
    assert priorities.critical("stop.now/1")


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is in the log, and its type is not critical."""
    for name, text in (("a", "{"), ("b", "[]"), ("c", "{}"), ("d", '{"type": "x/1", "priority": {}}')):
        (tmp_path / f"{name}.json").write_text(text)
    _contract(tmp_path, "stop.all/1", "critical")
    priorities = Priorities(tmp_path)
    assert priorities.critical("stop.all/1")
    assert priorities.critical("task.cancel/1")
    assert not priorities.critical("x/1")
    assert sum("contract-unreadable" in record.getMessage() for record in caplog.records) == 3
