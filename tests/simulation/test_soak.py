"""Ten days in virtual time, and the same twice; the long form is `python -m tests.simulation`."""

import pytest

from tests.simulation.loop import run
from tests.simulation.soak import soak

pytestmark = pytest.mark.timeout(600)


def test_ten_days_lose_double_and_disorder_nothing() -> None:
    """Through kills, stops, failing disks, and a clock that is set back and forth, once by forty days: every 2xx'd
    send is stored once and unchanged, each delivery ends acked or dead, no acked message comes again, order holds."""
    counts = run(soak(1, days=10, sends_per_day=120))
    for party in ("adapter", "sidecar"):
        assert counts[f"kill: {party}"] > 20
        assert counts[f"kill at answer: {party}"] > 20
        assert counts[f"disk: {party}"] > 10
        assert counts[f"kill twice: {party}"] > 5
        assert counts[f"stop: {party}"] > 5
    assert counts["clock: adapter"] + counts["clock: sidecar"] > 10
    for kind in ("acks deferred", "acks stale", "nacks fail", "nacks refuse", "nacks release", "replays", "send 200"):
        assert counts[kind] > 5, kind
    assert counts["send 202"] > 100
    assert counts["acks acked"] > 4_000


def test_a_seed_names_a_run() -> None:
    """What one seed brings about, it brings about again: a failure can be played until it is understood."""
    first, second = (run(soak(7, days=0.25, sends_per_day=400)) for _ in range(2))
    assert first == second
    assert first["hand-overs"] > 100
