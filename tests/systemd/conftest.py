"""One box for all tests of this folder: booted once, with the package installed in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.box import Box, why_not
from tests.systemd.installation import build_wheel, install, shown

MUST_RUN_VARIABLE = "MULTICLAW_SYSTEMD_TESTS"
"""With the value `required`, as CI sets it, a machine that cannot boot the box fails instead of skipping."""


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """The box. Tests leave it as they found it, or use names of their own."""
    reason = why_not()
    if reason is not None and os.environ.get(MUST_RUN_VARIABLE) == "required":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    wheel = build_wheel(Path(tmp_path_factory.mktemp("wheel")))
    with Box(shown(wheel)) as booted:
        install(booted)
        yield booted
