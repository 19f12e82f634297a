"""Settling a drained batch."""

from shared.limits import BATCH_MESSAGES_MAX
from shared.problems import Problem
from sidecar.core.drain import FAULTS_MAX, next_count, plan
from sidecar.core.link_outcome import Outcome, Verdict, read_outcome, refused

_DONE = Outcome(Verdict.ACCEPTED, 201, answer={})
_FAULT = read_outcome({"code": 500, "problem": Problem("internal", "Bug.").document()})
_LATER = read_outcome({"code": 429, "problem": Problem("queue-full", "Full.").document()})


def test_verdicts_settle_and_the_rest_stays() -> None:
    """Accepted leaves, refused is set aside, anything unsettled stays and ends the drain."""
    settled = plan([_DONE, refused(Problem("expired", "Late.")), _LATER, _DONE], [0] * 4)
    assert (settled.done, settled.dead, settled.proceed) == ([0, 3], [1], False)
    assert plan([_DONE, _DONE], [0, 0]).proceed


def test_a_drain_that_is_told_when_to_come_again_goes_on() -> None:
    """A full queue and a rate have a time; what is behind them stays behind, and the drain does not end."""
    full = read_outcome({"code": 429, "problem": Problem("queue-full", "Full.", retry_after=5.0).document()})
    held = read_outcome({"code": 424, "problem": Problem("held-back", "Behind.").document()})
    settled = plan([_DONE, full, held], [0] * 3)
    assert (settled.done, settled.dead, settled.proceed) == ([0], [], True)
    assert settled.pause is not None
    assert settled.pause.seconds == 5.0
    assert plan([_DONE], [0]).pause is None


def test_the_size_of_a_request_follows_what_the_last_one_took() -> None:
    """Twice as many after a quick one, half as many after a slow one, the same between; never more than a request
    holds, and never none."""
    seconds = {"quick": 0.1, "middling": 0.2, "slow": 0.3}
    assert [next_count(16, seconds[speed]) for speed in ("quick", "middling", "slow")] == [32, 16, 8]
    assert next_count(BATCH_MESSAGES_MAX, 0.0) == BATCH_MESSAGES_MAX
    count = BATCH_MESSAGES_MAX
    for _ in range(100):
        count = next_count(count, 5.0)
    assert count == 4


def test_silence_never_kills() -> None:
    """However often the link fails, no message is set aside for it."""
    silent = Outcome(Verdict.UNKNOWN, 0)
    assert plan([silent], [1_000]).dead == []


def test_a_fault_at_one_message_is_bounded() -> None:
    """The adapter's own fault at a message is retried, and not for ever."""
    assert plan([_FAULT], [FAULTS_MAX - 2]).dead == []
    assert plan([_FAULT], [FAULTS_MAX - 1]).dead == [0]
