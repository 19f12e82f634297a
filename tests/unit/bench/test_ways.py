"""What the ways put on the wire, and what they believe."""

import time

import pytest

from bench.client import Response
from bench.messages import MESSAGE_BYTES, make_message
from bench.ways import AdapterWay, SidecarWay, Unexpected
from bench.workloads.throughput import lanes_of
from shared.api import ReceiveRequest
from shared.config import load
from shared.keys import create_key, load_keyring
from shared.link import PollRequest
from shared.signing import ANSWER_HEADER, sign_answer, verify_envelope, verify_request
from shared.strict_json import decode, encode


@pytest.fixture
def config(tmp_path):
    """Two agents with keys."""
    path = tmp_path / "multiclaw.toml"
    path.write_text("[agents.a]\n[agents.b]\n[channels]\n")
    config = load(path, {})
    config.paths.keys.mkdir()
    for agent in config.agents:
        create_key(config.paths.keys, agent)
    return config


def answer_to(request, body: bytes, key, status: int = 200) -> Response:
    """An answer that is sealed with `key`."""
    seal = sign_answer(key, request.signature, status, body)
    return Response(status, f"HTTP/1.1 {status} OK\r\n{ANSWER_HEADER}: {seal}\r\n".encode(), body, 0)


def test_messages_have_the_stated_size_and_keys_of_their_own():
    """What is measured is what is claimed."""
    made = [make_message("a", to) for to in ("@b", "@a-longer-name", "team")]
    assert [len(encode(message.content)) for message in made] == [MESSAGE_BYTES] * 3
    assert len({message.key for message in made}) == 3


def test_the_link_would_let_the_requests_in(config):
    """Requests and envelopes carry the signatures that the adapter asks for."""
    way, keyring, now_us = AdapterWay(config), load_keyring(config.paths.keys, "a"), time.time_ns() // 1000
    messages = [make_message("a", "@b") for _ in range(3)]
    request = way.send(messages)
    head, _, body = request.wire.partition(b"\r\n\r\n")
    method, target, _ = head.decode().split(" ", 2)
    agent, _ = verify_request(request.signature, method, target, body, {"a": keyring}, now_us)
    assert agent == "a"
    envelopes = decode(body)["envelopes"]
    for envelope in envelopes:
        verify_envelope(envelope, keyring, now_us)
    assert [envelope["idempotency_key"] for envelope in envelopes] == [message.key for message in messages]
    assert request.keys == tuple(message.key for message in messages)


def test_an_answer_of_the_link_is_believed_only_when_signed(config):
    """A benchmark of something else than the adapter ends."""
    way, body = AdapterWay(config), encode({"messages": []})
    request = way.poll("a", 10, 0)
    right, wrong = (load_keyring(config.paths.keys, agent).current for agent in "ab")
    assert way.read(request, answer_to(request, body, right)) == {"messages": []}
    with pytest.raises(Unexpected, match="not signed"):
        way.read(request, answer_to(request, body, wrong))


def test_a_poll_carries_acks_as_each_api_asks_for_it(config):
    """What is measured is the trip that handlers of the client make: one for the acks and for the next messages."""
    for way, model in ((AdapterWay(config), PollRequest), (SidecarWay(config), ReceiveRequest)):
        head, _, body = way.poll("a", 7, 1.5, ["1.1.aa", "2.1.aa"]).wire.partition(b"\r\n\r\n")
        asked = model.model_validate_json(body)
        assert (asked.max, asked.wait, asked.acks.delivery_ids) == (7, 1.5, ["1.1.aa", "2.1.aa"])
        assert model.model_validate_json(way.poll("a", 7, 1.5).wire.partition(b"\r\n\r\n")[2]).acks is None
        assert head.startswith(b"POST ")


@pytest.mark.parametrize("status", [302, 404, 503])
def test_what_is_no_success_ends_the_workload_with_its_words(config, status):
    """The fault says what the server said."""
    way = SidecarWay(config)
    with pytest.raises(Unexpected, match=f"{status}: no way"):
        way.read(way.poll("a", 1, 0), Response(status, b"", b"no way", 0))


def test_outcomes_are_those_of_each_send(config):
    """Both ways tell the status a send has, or had alone, and its place."""
    answer = {"channel": "@b", "channel_sequence_id": 4}
    link, agents = AdapterWay(config), SidecarWay(config)
    request = link.send([make_message("a", "@b"), make_message("a", "@b")])
    body = encode({"outcomes": [{"code": 201, "answer": answer}, {"code": 422, "problem": {}}]})
    sealed = answer_to(request, body, load_keyring(config.paths.keys, "a").current)
    codes = [(outcome.code, outcome.sequence) for outcome in link.outcomes(request, sealed)]
    assert codes == [(201, 4), (422, 0)]
    sent = agents.send([make_message("a", "@b")])
    (outcome,) = agents.outcomes(sent, Response(202, b"", encode({"status": "queued"}), 0))
    assert outcome.code == 202


def test_in_flight_is_kept_either_way(config):
    """64 in flight are 64: in six requests where sends coalesce, on 64 connections where they do not."""
    senders = ["a", "b", "c", "d", "e", "f"]
    coalesced = lanes_of(AdapterWay(config), senders, 64)
    apart = lanes_of(SidecarWay(config), senders, 64)
    assert [batch for _, batch in coalesced] == [11, 11, 11, 11, 10, 10]
    assert len(apart) == 64
    assert {batch for _, batch in apart} == {1}
    assert [sum(1 for sender, _ in apart if sender == name) for name in senders] == [11, 11, 11, 11, 10, 10]
