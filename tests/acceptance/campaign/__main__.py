"""`python -m tests.acceptance.campaign --rounds N --seed S`: play rounds S to S + N - 1, leg by leg."""

import argparse
import asyncio
import sys
import time
from collections import Counter

from tests.acceptance.campaign.leg import LEG_ROUNDS_MAX, CampaignFailure, play_leg


def main() -> int:
    """0 when every census was clean, 1 at the first that was not; `--keep-going` counts failures instead."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.campaign", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true", help="play the other legs after a failure")
    asked = parser.parse_args()
    began, failures, total = time.monotonic(), 0, Counter[str]()
    for first in range(asked.seed, asked.seed + asked.rounds, LEG_ROUNDS_MAX):
        rounds = min(LEG_ROUNDS_MAX, asked.seed + asked.rounds - first)
        try:
            total += asyncio.run(play_leg(first, rounds, _tell))
        except CampaignFailure as failure:
            failures += 1
            _tell(str(failure))
            if not asked.keep_going:
                break
    _tell(f"{asked.rounds} rounds asked, {failures} failures, {time.monotonic() - began:.0f} s")
    for name, count in sorted(total.items()):
        _tell(f"  {name}: {count:,}")
    return 1 if failures else 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
