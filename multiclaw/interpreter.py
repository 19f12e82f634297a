"""How one of our processes is started: by the interpreter that runs us, from the packages that we were loaded from."""

import sys
from pathlib import Path


def python_module(module: str, config: Path, *arguments: str) -> tuple[str, ...]:
    """The command line of `module`. `-P`: a folder `adapter` where the caller stands must not be taken for ours."""
    return (sys.executable, "-P", "-m", module, "--config", str(config), *arguments)
