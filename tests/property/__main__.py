"""`python -m tests.property --steps N`: the long form of the stateful machines; N steps, a fifth of them on SQLite."""

import argparse
import sys
import time

from tests.property.steps import take_steps
from tests.property.test_exchange import PLANS


def main() -> int:
    """0 when every answer and every row was the model's; else Hypothesis tells the shortest way to the fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.property", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    asked = parser.parse_args()
    for machine, share in PLANS.items():
        began = time.monotonic()
        done = take_steps(machine, asked.steps * share // 100)
        print(f"{machine.__name__}: {done:,} steps in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
