"""One box and one deployment for all tests of this folder: booted and installed once."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.box import Box, why_not
from tests.systemd.installation import build_wheel, install, shown
from tests.systemd.installed import Installed

MUST_RUN_VARIABLE = "MULTICLAW_SYSTEMD_TESTS"
"""With the value `required`, as CI sets it, a machine that cannot boot the box fails instead of skipping."""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built once."""
    reason = why_not()
    if reason is not None and os.environ.get(MUST_RUN_VARIABLE) == "required":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def box(wheel: Path) -> Iterator[Box]:
    """The box. Tests leave it as they found it, or use names of their own."""
    with Box(shown(wheel)) as booted:
        install(booted)
        yield booted


@pytest.fixture
def fresh_box(wheel: Path) -> Iterator[Box]:
    """A box for one test, for what cannot be undone."""
    with Box(shown(wheel)) as booted:
        install(booted)
        yield booted


@pytest.fixture(scope="session")
def installed(box: Box) -> Installed:
    """A deployment in the box."""
    return Installed(box)


@pytest.fixture
def running(installed: Installed) -> Installed:
    """The deployment, with everything of it ready."""
    installed.start()
    return installed
