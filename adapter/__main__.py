"""`python -m adapter --config PATH`."""

import argparse
import sys
from pathlib import Path

from shared.lean_imports import lean_imports


def main() -> int:
    """Parse, load, serve; the exit status."""
    parser = argparse.ArgumentParser(prog="adapter", description="The adapter of one deployment.")
    parser.add_argument("--config", type=Path, required=True, help="path of multiclaw.toml")
    arguments = parser.parse_args()
    with lean_imports(collect=False):  # nobody is served until it has started
        from adapter.app import adapter  # noqa: PLC0415 - the block is what makes them lean
        from shared.config import load  # noqa: PLC0415
        from shared.lifecycle import run  # noqa: PLC0415
    return run("adapter", lambda: adapter(load(arguments.config)))


if __name__ == "__main__":
    sys.exit(main())
