"""Versions of the topology: their states, and what a file means when an adapter starts."""

import itertools

import pytest

from adapter.core.membership import TRANSITIONS, FileState, Standing, Step, TopologyVersion, file_state
from tests.support.factories import AGENTS, membership


def version(number, agents=AGENTS, **fields):
    return TopologyVersion(number, number - 1, membership(agents), (), "proposal", "orchestrator", "r", 5, **fields)


@pytest.mark.parametrize(("standing", "step"), list(itertools.product(Standing, Step)))
def test_what_is_not_in_the_table_is_illegal(standing, step):
    """Every pair: the table's target, or a refusal; the version itself is never changed."""
    before = version(2, standing=standing)
    if (standing, step) in TRANSITIONS:
        assert before.moved(step) == version(2, standing=TRANSITIONS[standing, step])
    else:
        with pytest.raises(ValueError, match="cannot"):
            before.moved(step)
    assert before == version(2, standing=standing)


FEWER, FEWEST = AGENTS[:-1], AGENTS[:-2]


@pytest.mark.parametrize(
    ("file", "applied", "state"),
    [
        (AGENTS, [AGENTS], FileState.SAME),
        (FEWER, [AGENTS], FileState.EDITED),
        (AGENTS, [AGENTS, FEWER], FileState.BEHIND),
        (FEWER, [AGENTS, FEWER], FileState.SAME),
        (FEWER, [AGENTS, FEWER, FEWEST], FileState.BEHIND),
        (AGENTS, [AGENTS, FEWER, AGENTS], FileState.SAME),
        (("orchestrator",), [AGENTS, FEWER], FileState.EDITED),
    ],
)
def test_what_a_file_means(file, applied, state):
    """An approval that was not written stands, however many came after what the file says; all else is an edit."""
    versions = [version(number, agents) for number, agents in enumerate(applied, 1)]
    assert file_state(membership(file), versions) is state
