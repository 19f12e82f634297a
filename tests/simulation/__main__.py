"""`python -m tests.simulation --days D --seed S --seeds N`: soaks S to S + N - 1, one after the other."""

import argparse
import logging
import sys
import time
from collections import Counter

from tests.simulation.loop import run
from tests.simulation.soak import SoakFailure, soak


def main() -> int:
    """0 when every census was clean, 1 at the first that was not."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--sends-per-day", type=float, default=500.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--log", default="CRITICAL", help="level of what the processes log")
    asked = parser.parse_args()
    logging.basicConfig(level=asked.log)
    began, total = time.monotonic(), Counter[str]()
    for seed in range(asked.seed, asked.seed + asked.seeds):
        try:
            total += run(soak(seed, asked.days, asked.sends_per_day))
        except SoakFailure as failure:
            print(failure, flush=True)
            return 1
        print(f"soak {seed}: {asked.days:g} days, clean", flush=True)
    print(f"{asked.seeds} soaks of {asked.days:g} days in {time.monotonic() - began:.0f} s")
    for name, count in sorted(total.items()):
        print(f"  {name}: {count:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
