"""What a handler has done is told by the poll that follows, and by a request of its own wherever that does not work."""

import json

import pytest

from tests.integration.client.harness import running
from tests.support.fake_sidecar import Answers, Fails, LosesAnswer, LosesRequest, envelope

RECEIVE, ACK = "/v1/messages/receive", "/v1/messages/ack"


@pytest.fixture
def done(agent):
    """The sequences that the agent's handler was called with, in order."""
    sequences = []

    @agent.on("*")
    async def handle(message):
        sequences.append(message.sequence)
        return {"n": message.sequence}

    return sequences


def answers(status=200, **members):
    """An answer of the sidecar's to a poll that carried acks."""
    return Answers(status, json.dumps({"messages": [], "gaps": [], **members}).encode())


async def test_one_request_for_each_message(agent, sidecar, done):
    """After the first poll, each acknowledges a message, with its result, and takes the next."""
    sidecar.queue(envelope(1), envelope(2), envelope(3))
    async with running(agent, max=1):
        await sidecar.until(lambda: len(sidecar.acked) == 3)
        paths = [call.path for call in sidecar.calls]
    assert paths == ["/v1/messages", RECEIVE, RECEIVE, RECEIVE]
    assert sidecar.acked == [(sequence, {"n": sequence}) for sequence in done] == [(n, {"n": n}) for n in (1, 2, 3)]


async def test_what_others_wait_behind_is_acked_at_once(agent, sidecar, done):
    """No poll follows while messages of the last one are to be worked on."""
    sidecar.queue(envelope(1), envelope(2))
    async with running(agent):
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert done == [1, 2]
    assert [body["delivery_ids"] for body in sidecar.bodies(ACK)][:1] == [["t1"]]
    assert [body["acks"]["delivery_ids"] for body in sidecar.bodies(RECEIVE)] == [["t2"]]


async def test_it_waits_less_long_than_a_lease(agent, sidecar, done):
    """So that an ack whose answer is lost can be told again; the polls after it wait as they are told to."""
    sidecar.queue(envelope(1))
    async with running(agent, wait=30):
        await sidecar.until(lambda: bool(sidecar.bodies(RECEIVE)))
        assert sidecar.bodies(RECEIVE)[0]["wait"] == 5.0
    assert done == [1]


@pytest.mark.parametrize(
    "fault",
    [
        LosesAnswer(),
        LosesRequest(),
        Fails(),
        Fails(422, "invalid-field", retryable=False),
        answers(),
        answers(acks={"code": 503, "problem": {"type": "store-unavailable", "retryable": True}}),
    ],
)
async def test_whatever_the_poll_comes_to_the_ack_is_told(agent, sidecar, done, fault):
    """By itself, with its result, where the poll was not answered, was refused, or does not settle it."""
    sidecar.queue(envelope(1))
    sidecar.fail(RECEIVE, fault)
    async with running(agent, wait=0.05):
        await sidecar.until(lambda: bool(sidecar.bodies(ACK)))
        sidecar.queue(envelope(2))
        await sidecar.until(lambda: len(sidecar.acked) == 2)
    assert sidecar.bodies(ACK)[0] == {"delivery_ids": ["t1"], "results": {"t1": {"n": 1}}}
    assert (done, sidecar.acked) == ([1, 2], [(1, {"n": 1}), (2, {"n": 2})])


async def test_a_problem_may_tell_of_the_acks(agent, sidecar, done):
    """With the adapter away there are no messages, and the acks are taken all the same: they are not told again."""
    sidecar.queue(envelope(1))
    taken = {"code": 200, "answer": {"acked": [], "deferred": ["t1"]}}
    sidecar.fail(RECEIVE, answers(503, type="adapter-unreachable", retryable=True, acks=taken))
    async with running(agent, wait=0.05):
        await sidecar.until(lambda: len([call for call in sidecar.calls if call.method == "GET"]) > 1)
    assert done == [1]
    assert sidecar.bodies(ACK) == []


async def test_a_refused_ack_is_not_told_again(agent, sidecar, done, caplog):
    """Its lease has ended: the message comes again, and the log has it."""
    sidecar.queue(envelope(1))
    stale = {"code": 409, "problem": {"type": "stale-lease", "detail": "over", "stale": ["t1"], "acked": []}}
    sidecar.fail(RECEIVE, answers(acks=stale))
    async with running(agent, wait=0.05):
        await sidecar.until(lambda: len([call for call in sidecar.calls if call.method == "GET"]) > 1)
    assert "could not be told: stale-lease" in caplog.text
    assert sidecar.bodies(ACK) == []


async def test_a_sidecar_that_does_not_know_it_is_asked_once(agent, sidecar, done):
    """One of an earlier version: everything goes on as with it."""
    sidecar.queue(envelope(1), envelope(2), envelope(3))
    sidecar.fail(RECEIVE, Fails(404, "not-found", retryable=False))
    async with running(agent, max=1):
        await sidecar.until(lambda: len(sidecar.acked) == 3)
    assert done == [1, 2, 3]
    assert len(sidecar.bodies(RECEIVE)) == 1


async def test_a_stop_tells_what_its_last_poll_carries(agent, sidecar, done):
    """The poll is given up, and the ack is made by itself, again where it had been taken."""
    sidecar.queue(envelope(1))
    async with running(agent, wait=5):
        await sidecar.until(lambda: bool(sidecar.acked))
    assert sidecar.bodies(ACK) == [{"delivery_ids": ["t1"], "results": {"t1": {"n": 1}}}]
    assert sidecar.acked == [(1, {"n": 1})]


async def test_a_handler_that_stops_its_agent_is_told_of(sidecar, agent):
    """No poll follows then."""

    @agent.on("*")
    async def handle(_):
        agent.stop()

    sidecar.queue(envelope(1))
    async with running(agent):
        await sidecar.until(lambda: bool(sidecar.acked))
    assert sidecar.bodies(RECEIVE) == []
    assert sidecar.acked == [(1, None)]
