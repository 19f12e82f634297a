"""The import arrows of `pyproject.toml` hold, and each of them bites."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rules import PACKAGES

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the packages of a folder."""
    return subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", LINT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.fspath(folder)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_the_arrows_hold() -> None:
    """Every contract is kept: shared at the bottom, adapter and sidecar apart, cores pure, the client alone."""
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("adapter/core/admission.py", "import sidecar.core"),
        ("sidecar/app.py", "import adapter.core"),
        ("shared/names.py", "import sidecar.core"),
        ("multiclaw/client/agent.py", "import shared.names"),
        ("multiclaw/client/agent.py", "import pydantic"),
        ("adapter/core/admission.py", "import asyncio"),
        ("sidecar/core/__init__.py", "import time"),
        ("adapter/core/admission.py", "import adapter.app"),
        ("sidecar/core/__init__.py", "import sidecar.app"),
    ],
)
def test_each_arrow_bites(tmp_path: Path, module: str, line: str) -> None:
    """One forbidden import in a copy of the code breaks a contract."""
    for package in (*PACKAGES, "bench"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
