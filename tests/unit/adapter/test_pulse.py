"""When a store must show that it takes writes: seldom while it is idle, at once where the next write is at risk."""

import itertools
from types import SimpleNamespace

import pytest

from adapter.store import pulse
from adapter.store.pulse import FRESH_US, Pulse, is_at_risk
from tests.support.clock import us

EVERY = us(10)


def opened(**fields):
    made = Pulse(EVERY)
    made.opened(0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def probes(until_seconds, *, at_risk=False, step=0.25):
    """The seconds at which a store that has no work is written to, when somebody asks every `step`."""
    one, written = opened(), []
    for tick in range(1, int(until_seconds / step) + 1):
        now_us = us(tick * step)
        wrote = one.must_write(now_us, at_risk=at_risk)
        one.probed(now_us, wrote=wrote)
        if wrote:
            written.append(tick * step)
    return written


def test_an_answer_is_good_for_a_moment():
    """Whoever asks again within it costs nothing; a group and a probe both count, whatever they wrote."""
    one = opened()
    assert one.is_fresh(FRESH_US - 1)
    assert not one.is_fresh(FRESH_US)
    one.worked(us(5), wrote=False)
    assert one.is_fresh(us(5) + FRESH_US - 1)
    one.probed(us(6), wrote=False)
    assert one.is_fresh(us(6) + FRESH_US - 1)


def test_a_store_at_work_is_never_written_to_for_the_sake_of_proof():
    """Its messages are the proof."""
    one = opened()
    for second in range(1, 1_000):
        assert not one.must_write(us(second), at_risk=False)
        one.worked(us(second), wrote=True)


def test_groups_that_write_nothing_prove_no_disk():
    """A store that is only polled, and gives nothing, is idle."""
    one = opened()
    one.worked(us(9), wrote=False)
    assert one.must_write(us(10), at_risk=False)


def test_an_idle_store_is_written_to_less_and_less():
    """So that a laptop's disk may sleep: twenty writes in the first hour, then one in ten minutes, and no fewer."""
    written = probes(86_400, step=1)
    pauses = [later - earlier for earlier, later in itertools.pairwise(written)]
    assert written[0] == 10
    assert pauses == sorted(pauses)
    assert sum(at <= 3_600 for at in written) <= 20
    assert pauses[-1] == 600
    assert max(pauses) == 600


def test_work_makes_an_idle_store_attentive_again():
    """After a message the short pause counts."""
    one = opened(worked_us=us(100_000), written_us=us(100_000))
    assert not one.must_write(us(100_009), at_risk=False)
    assert one.must_write(us(100_010), at_risk=False)


def test_a_disk_at_risk_is_tried_every_second():
    """However idle the store is."""
    assert probes(30, at_risk=True) == list(range(1, 31))


@pytest.mark.parametrize(
    ("flags", "blocks", "risky"),
    [(0, 64 * 256, False), (0, 64 * 256 - 1, True), (0, 0, True), (1, 10**9, True)],
)
def test_a_disk_is_at_risk_when_it_is_nearly_full_or_read_only(monkeypatch, tmp_path, flags, blocks, risky):
    """Under 64 MiB for us, or mounted read-only."""
    found = SimpleNamespace(f_flag=flags, f_bavail=blocks, f_frsize=4096)
    monkeypatch.setattr(pulse.os, "statvfs", lambda folder: found)
    assert is_at_risk(tmp_path) is risky


def test_a_folder_that_is_gone_is_a_fault(tmp_path):
    """Nobody takes a missing folder for a healthy disk."""
    with pytest.raises(FileNotFoundError):
        is_at_risk(tmp_path / "nowhere")
