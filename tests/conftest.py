"""What every test may use."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("multiclaw", deadline=None, print_blob=True)
settings.load_profile("multiclaw")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A private folder whose path leaves room for a socket name: a Unix socket path holds 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
