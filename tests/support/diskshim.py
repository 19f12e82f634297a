"""The library that stands between a process and its disk (`diskshim.c`), compiled once."""

import functools
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_SECONDS_MAX = 120


def watched(folder: Path) -> dict[str, str]:
    """The variables that put it between a process and the files of one folder."""
    return {"LD_PRELOAD": str(_library()), "MULTICLAW_DISK_DIR": str(folder)}


@functools.cache
def _library() -> Path:
    built = Path(tempfile.mkdtemp(prefix="mc-diskshim-")) / "diskshim.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(built), str(_SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS_MAX)  # noqa: S603 - our own source
    return built
