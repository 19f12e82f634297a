"""The package as an operator installs it: a wheel, in an environment of its own at `/opt/multiclaw` of the box.

The interpreter and the third-party packages are those that run the tests, shown read-only inside: building and
installing the wheel takes a second, and needs no network.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.systemd.box import Box

ROOT: Final = Path(__file__).parents[2]
PREFIX: Final = "/opt/multiclaw"
PYTHON: Final = f"{PREFIX}/bin/python"
MULTICLAW: Final = f"{PREFIX}/bin/multiclaw"

_SOURCES: Final = ("adapter", "sidecar", "shared", "multiclaw", "bench", "deploy", "pyproject.toml", "README.md")
_BUILD: Final = "from setuptools.build_meta import build_wheel; build_wheel('..')"
_VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


def build_wheel(folder: Path) -> Path:
    """The wheel of this source tree, built from a copy so that nothing is left in it."""
    source = folder / "source"
    source.mkdir()
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(ROOT / name, source)
    command = [sys.executable, "-c", _BUILD]
    subprocess.run(command, cwd=source, check=True, capture_output=True)  # noqa: S603 - this interpreter
    (wheel,) = folder.glob("*.whl")
    shutil.rmtree(source)
    return wheel


def shown(wheel: Path) -> dict[Path, str]:
    """What the box must show for `install`. The interpreter may stand under a home, which hardened units cannot see."""
    interpreter = {} if sys.base_prefix == "/usr" else {Path(sys.base_prefix): "/opt/python"}
    return {wheel.parent: "/opt/wheel", Path(sysconfig.get_path("purelib")): "/opt/packages", **interpreter}


def install(box: Box) -> None:
    """Make the environment and install the wheel into it, with pip."""
    base = "/usr" if sys.base_prefix == "/usr" else "/opt/python"
    if base != "/usr":  # its library is looked for where the interpreter was built for, which users cannot see
        box.write("/etc/ld.so.conf.d/000-python.conf", f"{base}/lib\n")
        box.run("ldconfig")
    box.run(f"{base}/bin/python{_VERSION}", "-m", "venv", "--without-pip", PREFIX)
    box.write(f"{PREFIX}/lib/python{_VERSION}/site-packages/packages.pth", "/opt/packages\n")
    (wheel,) = (path.name for path in box.path("/opt/wheel").glob("*.whl"))
    options = ("--no-deps", "--no-index", "--ignore-installed", "--quiet", "--root-user-action=ignore")
    box.run(PYTHON, "-m", "pip", "install", *options, f"/opt/wheel/{wheel}")
