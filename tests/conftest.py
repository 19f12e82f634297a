"""What every test may use, and how tests are dealt to several workers."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("multiclaw", deadline=None, print_blob=True)
settings.load_profile("multiclaw")

_LONGEST_FIRST = (
    "tests/simulation",
    "tests/crash",
    "tests/systemd",
    "tests/acceptance/test_kill_campaign",
    "tests/property",
    "tests/acceptance",
    "tests/integration",
)
"""What a worker takes last should be short, or the others wait for it."""

_ALONE = ("tests/simulation/test_soak", "tests/crash", "tests/acceptance/test_kill_campaign", "tests/property")
"""Of these each test goes to whoever is free: they take long, and share nothing."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of `--dist=loadgroup`, the tests of a file stay together and share what its fixtures start, and so do
    all that share the booted systemd.
    """
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file.startswith("tests/systemd"):
            item.add_marker(pytest.mark.xdist_group("tests/systemd"))
        elif not file.startswith(_ALONE):
            item.add_marker(pytest.mark.xdist_group(file))
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    places = (place for place, start in enumerate(_LONGEST_FIRST) if nodeid.startswith(start))
    return next(places, len(_LONGEST_FIRST))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A private folder whose path leaves room for a socket name: a Unix socket path holds 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
