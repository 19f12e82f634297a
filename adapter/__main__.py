"""`python -m adapter --config PATH`."""

import argparse
import sys
from pathlib import Path

from adapter.app import adapter
from shared.config import load
from shared.lifecycle import run


def main() -> int:
    """Parse, load, serve; the exit status."""
    parser = argparse.ArgumentParser(prog="adapter", description="The adapter of one deployment.")
    parser.add_argument("--config", type=Path, required=True, help="path of multiclaw.toml")
    arguments = parser.parse_args()
    return run("adapter", lambda: adapter(load(arguments.config)))


if __name__ == "__main__":
    sys.exit(main())
