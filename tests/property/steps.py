"""Machines by the number of steps they take, and not by that of examples, which end when they like."""

import sys
from collections import Counter

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

_EXAMPLES = 100
_STEPS_OF_AN_EXAMPLE = 80

taken: Counter[str] = Counter()
"""Steps by the name of the machine, of this process."""


class CountedMachine(RuleBasedStateMachine):
    """A machine whose steps are counted."""

    @invariant()
    def a_step_was_taken(self) -> None:
        """Asked after each one."""
        taken[type(self).__name__] += 1


def take_steps(machine: type[CountedMachine], count: int) -> int:
    """Run examples until so many steps were taken; gives how many were. Raises what the machine raises, shrunk."""
    name, before = machine.__name__, taken[machine.__name__]
    rules = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS_OF_AN_EXAMPLE,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    while taken[name] - before < count:
        run_state_machine_as_test(machine, settings=rules)  # type: ignore[no-untyped-call]
        if sys.stderr.isatty():
            print(f"{name}: {taken[name] - before:,} steps", file=sys.stderr, flush=True)
    return taken[name] - before
