"""Fifty seeded rounds of traffic through processes that are killed; the long form is `tests.acceptance.campaign`."""

import pytest

from tests.acceptance.campaign.leg import LEG_ROUNDS_MAX, play_leg

_ROUNDS = 50


@pytest.mark.parametrize("first_seed", range(1, _ROUNDS, LEG_ROUNDS_MAX))
async def test_nothing_acknowledged_is_lost_changed_or_applied_twice(first_seed: int) -> None:
    """Whatever is killed whenever: every 2xx'd send is stored once, unchanged, in the order of its sender, and for
    each recipient in one state; no acked message comes again; each order key keeps its order."""
    counts = await play_leg(first_seed, LEG_ROUNDS_MAX)
    for party in ("adapter", "sidecar"):
        assert counts[f"kill: {party}"] + counts[f"kill at answer: {party}"] > 3
    assert counts["send 202"] > 3
    assert counts["deliveries acked"] > 100
    assert counts["deliveries queued"] + counts["deliveries leased"] == 0
