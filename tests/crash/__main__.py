"""`python -m tests.crash`: the whole sweep of every scenario, also where syncs fail, and every mutant; `--share` takes
a part of the cuts.
"""

import argparse
import itertools
import sys
import time

from tests.crash import adapter, replacing, sidecar
from tests.crash.mutants import FAIL_SYNC_EVERY, MUTANTS, OF_REPLACEMENTS
from tests.crash.recording import record
from tests.crash.sweep import Check, sweep

SCENARIOS: dict[str, Check] = {"adapter": adapter.faults, "sidecar": sidecar.faults}
REPLACING: dict[str, Check] = {"replacing": replacing.faults}

_SELDOM = (0, 37, 41, 53)
"""Each so many syncs one fails: a restore makes some thirty, and would never come to its end."""


def main() -> int:
    """0 when every cut kept every promise and every mutant was noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    failures = 0
    played = [*itertools.product(SCENARIOS.items(), (0, 7, 11, 37)), *itertools.product(REPLACING.items(), _SELDOM)]
    for (scenario, check), every in played:
        began, recording = time.monotonic(), record(scenario, fail_sync_every=every)
        done = sweep(recording, check, seed=asked.seed, share=asked.share)
        failures += bool(done.faults)
        print(
            f"{scenario}: {recording.operations:,} operations ({recording.failed_syncs} syncs failed), "
            f"{done.cuts:,} cuts, {done.images:,} images, {len(done.faults)} faults, {time.monotonic() - began:.0f} s",
            *done.faults, sep="\n  ", flush=True,
        )  # fmt: skip
    for mutant in MUTANTS:
        every = FAIL_SYNC_EVERY.get(mutant, 0)
        noticed = [
            name
            for name, check in (REPLACING if mutant in OF_REPLACEMENTS else SCENARIOS).items()
            if sweep(record(name, mutant, fail_sync_every=every), check, faults_max=1).faults
        ]
        failures += not noticed
        print(f"{mutant}: noticed by {' and '.join(noticed) or 'nobody'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
