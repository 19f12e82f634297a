"""The test surface, served."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.shared.surface import Surface, served


@pytest.fixture
async def surface() -> Surface:
    """Handlers that remember."""
    return Surface()


@pytest.fixture
async def door(surface: Surface, short_folder: Path) -> AsyncIterator[Path]:
    """The socket at which the surface is served."""
    async with served(surface, short_folder / "s"):
        yield short_folder / "s"
