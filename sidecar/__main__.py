"""`python -m sidecar --config PATH --agent NAME`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from shared.lean_imports import lean_imports


def main() -> int:
    """Run one sidecar until it is told to stop; 78 when its configuration or its key is at fault."""
    parser = argparse.ArgumentParser(prog="sidecar", description="The sidecar of one agent.")
    parser.add_argument("--config", type=Path, required=True, help="path of multiclaw.toml")
    parser.add_argument("--agent", required=True, help="the agent this sidecar speaks for")
    arguments = parser.parse_args()
    with lean_imports():
        from shared.lifecycle import run  # noqa: PLC0415 - the block is what makes them lean
        from sidecar.app import application  # noqa: PLC0415
    return run(f"sidecar-{arguments.agent}", partial(application, arguments.config, arguments.agent))


if __name__ == "__main__":
    sys.exit(main())
