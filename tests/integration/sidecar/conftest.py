"""Fixtures of the sidecar's integration tests."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.integration.sidecar.harness import Deployment


@pytest.fixture
def deploy(short_folder: Path) -> Callable[..., Deployment]:
    """Makes the deployment, with limits of the test's choice."""
    return partial(Deployment, short_folder)


@pytest.fixture
def deployment(deploy: Callable[..., Deployment]) -> Deployment:
    """A deployment with fast limits."""
    return deploy()
