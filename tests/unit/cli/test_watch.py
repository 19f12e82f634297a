"""`multiclaw watch`, before there is anything to watch; with a real journal it is tested in `tests/systemd`."""

import sys
import time

import pytest

from multiclaw.cli.watch import moment
from shared.database.lock import StoreLock
from tests.unit.cli.runner import run


@pytest.fixture
def config(monkeypatch, tmp_path):
    """A deployment's file."""
    assert run(monkeypatch, "init", "--dir", tmp_path, "--agents", "orchestrator,pm").status == 0
    return tmp_path / "multiclaw.toml"


def test_without_the_library_it_says_what_to_install(monkeypatch, config):
    """Status 69, and the packages by name; nothing else of the command line needs them."""
    monkeypatch.setitem(sys.modules, "cysystemd.async_reader", None)
    done = run(monkeypatch, "watch", "--config", config)
    assert done.status == 69
    assert "apt install libsystemd0" in done.err
    assert "cysystemd" in done.err


def test_a_second_watcher_is_refused(monkeypatch, config):
    """It would tell everything twice; the refusal names the first one, and how to look on."""
    lock = StoreLock(config.parent / "state" / "watch")
    try:
        done = run(monkeypatch, "watch", "--config", config)
    finally:
        lock.release()
    assert done.status == 78
    assert "in use by process" in done.err
    assert "--only-show" in done.err


def test_since_takes_a_time_or_a_span(monkeypatch, config):
    """A date without an offset is refused: it could be read in two ways."""
    assert moment("1970-01-01T00:00:01Z") == 1_000_000
    assert moment(None) is None
    assert abs(time.time() - 5_400 - (moment("90m") or 0) / 1e6) < 5
    done = run(monkeypatch, "watch", "--config", config, "--since", "yesterday")
    assert done.status == 2
    assert "90m or 2d" in done.err
