"""A message sent in the stead of a dead one: stored and the letter closed together, or nothing at all."""

import pytest

from adapter.core.commands import Replay, Resolve, SendBatch
from tests.support.factories import policy, send


def place(sequence=1, recipient="qa", channel="@qa"):
    return {"recipient": recipient, "channel": channel, "channel_sequence_id": sequence}


def resend(to="@qa", sender="orchestrator", replaces=None, **fields):
    return send(sender, to, replaces=replaces or place(), **fields)


@pytest.fixture
def dead(bench):
    """A bench where a message to qa was refused."""
    bench.send(to="@qa")
    bench.nack(bench.poll()[0], "refuse", "no such field")
    return bench


@pytest.mark.parametrize("to", ["@qa", "product"])
def test_the_new_message_goes_out_and_the_old_is_closed(dead, to):
    """To its recipient, or to a channel that it is a member of; the letter says where the new one is."""
    sent = dead.do(resend(to))
    assert (sent.channel, sent.duplicate) == (to, False)
    letter = dead.letter(1)
    assert (letter.closure, letter.replaced_by, dead.row(1).state.word) == ("resent", (to, sent.sequence), "dead")
    (handed,) = dead.poll()
    assert b'"replaces":{"recipient":"qa"' in handed.envelope


def test_again_is_a_duplicate_and_changes_nothing(dead):
    """The same key and content, also in one request, and after the new one died too."""
    command = resend()
    first, second = dead.do(SendBatch((command, command)))
    assert (first.duplicate, second.duplicate, first.sequence) == (False, True, second.sequence)
    letter = dead.letter(1)
    dead.nack(dead.poll()[0], "refuse", "again")
    assert dead.do(command).duplicate
    assert dead.letter(1) == letter
    assert dead.letter(2).closure is None


def test_one_letter_is_replaced_once(dead):
    """Of two at once the second is refused, and nothing of it is stored."""
    first, second = dead.group(resend(), resend())
    assert (first.sequence, second.kind, second.field) == (2, "not-dead", "/replaces")
    assert dead.send(to="@qa").sequence == 3
    for command in (Replay(1, "qa"), Resolve(1, "qa", None)):
        problem = dead.refused(command)
        assert (problem.kind, "resent" in problem.detail) == ("not-dead", True)


@pytest.mark.parametrize("first", [Replay(1, "qa"), Resolve(1, "qa", None)])
def test_what_is_dealt_with_is_not_replaced(dead, first):
    """In the same group too; and what was not dead at all."""
    _, problem = dead.group(first, resend())
    assert problem.kind == "not-dead"
    dead.send(to="@qa")
    assert dead.refused(resend(replaces=place(2))).kind == "not-dead"


@pytest.mark.parametrize(
    ("command", "kind", "field"),
    [
        (resend(sender="pm"), "not-permitted", "/replaces"),
        (resend("@pm"), "invalid-field", "/replaces/recipient"),
        (resend("platform"), "invalid-field", "/replaces/recipient"),
        (resend(replaces=place(2)), "not-found", "/replaces"),
        (resend(replaces=place(1, channel="nowhere")), "not-found", "/replaces"),
        (resend("@pm", replaces=place(1, "pm")), "not-found", "/replaces"),
        (resend(expires_at_us=1), "expired", "/expires_at"),
    ],
)
def test_what_is_refused_changes_nothing(dead, command, kind, field):
    """Another role, a message that would not reach the recipient, a letter that never was."""
    problem = dead.refused(command)
    assert (problem.kind, problem.field) == (kind, field)
    assert dead.letter(1).closure is None
    assert dead.poll() == []


def test_a_full_queue_takes_nothing_from_the_letter(make_bench):
    """Refused for want of room, the letter stays open; dead on arrival, the new one is the dead letter then."""
    bench = make_bench(policy(queue_max=1, critical_reserve=0))
    bench.send(to="@qa")
    bench.nack(bench.poll()[0], "refuse")
    bench.send(to="@qa", critical=True)
    assert bench.refused(resend(critical=True)).kind == "queue-full"
    assert bench.letter(1).closure is None
    assert bench.do(resend()).recipients[0].status == "dead"
    assert (bench.letter(1).closure, bench.letter(3).last.reason) == ("resent", "overflow")
