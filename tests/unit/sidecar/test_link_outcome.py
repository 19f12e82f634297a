"""Classifying what came back over the link."""

import pytest

from shared.problems import Problem
from sidecar.core.link_outcome import LINK_FAILURES, LinkAnswer, Verdict, classify, read_outcome


@pytest.mark.parametrize(
    ("status", "facts", "verdict"),
    [
        (200, {}, Verdict.ACCEPTED),
        (201, {}, Verdict.ACCEPTED),
        (400, {}, Verdict.REFUSED),
        (409, {}, Verdict.REFUSED),
        (422, {}, Verdict.REFUSED),
        (429, {"retryable": True}, Verdict.LATER),
        (401, {"retryable": True}, Verdict.LATER),
        (500, {}, Verdict.UNKNOWN),
        (503, {"retryable": True}, Verdict.UNKNOWN),
        (None, {}, Verdict.UNKNOWN),
        (None, {"connected": False}, Verdict.UNREACHABLE),
        (200, {"verified": False}, Verdict.UNKNOWN),
        (422, {"verified": False}, Verdict.UNKNOWN),
    ],
)
def test_verdicts(status: int | None, facts: dict[str, bool], verdict: Verdict) -> None:
    """Every sort of answer has one verdict; an unsigned one is worth nothing, whatever its status."""
    assert classify(status, **facts) is verdict


def test_only_silence_counts_against_the_link() -> None:
    """A refusal, final or for now, is an answer."""
    assert {Verdict.UNREACHABLE, Verdict.UNKNOWN} == LINK_FAILURES


def test_expect_passes_a_problem_on() -> None:
    """What the adapter refused is told in its words; silence is `adapter-unreachable` with a time to wait."""
    answer = LinkAnswer(Verdict.REFUSED, 409, Problem("stale-lease", "Over.", stale=["d"]).document())
    with pytest.raises(Problem) as refusal:
        answer.expect()
    assert (refusal.value.kind, refusal.value.extra) == ("stale-lease", {"stale": ["d"]})
    with pytest.raises(Problem) as silence:
        LinkAnswer(Verdict.UNKNOWN).expect()
    assert (silence.value.kind, silence.value.retry_after) == ("adapter-unreachable", 1.0)


def test_outcomes_of_a_batch_are_read_apart() -> None:
    """Each has its own verdict, and is told on as it came."""
    accepted = read_outcome({"code": 201, "answer": {"status": "accepted"}})
    full = read_outcome({"code": 429, "problem": Problem("queue-full", "Full.").document()})
    assert (accepted.verdict, full.verdict) == (Verdict.ACCEPTED, Verdict.LATER)
    assert accepted.wire() == {"code": 201, "answer": {"status": "accepted"}}
    assert full.wire()["problem"]["type"] == "queue-full"
