"""The wire stays byte for byte what it was, so that yesterday's sidecars, stores and clients still understand."""

import hashlib
import hmac
import json
from typing import Any

import pytest

from shared.api import (
    Accepted,
    AckRequest,
    NackRequest,
    PollAnswer,
    ProblemDocument,
    Queued,
    ReceiveAnswer,
    ReceiveRequest,
    Scheduled,
)
from shared.envelope import Envelope, StoredEnvelope
from shared.link import PollRequest
from shared.model import Model, check
from shared.problems import KINDS, Problem
from shared.replays import ReplayJobRequest, ReplayJobView
from shared.signing import verify_envelope
from shared.strict_json import decode, encode
from tests.contract.wire import GOLDEN, KEYRING, NOW_US, dump, samples


def golden(name: str) -> bytes:
    """The bytes of a golden file, without the line feed that editors like."""
    return (GOLDEN / name).read_bytes().removesuffix(b"\n")


@pytest.mark.parametrize("name", sorted(samples()))
def test_the_wire_is_byte_equal(name: str) -> None:
    """What our code writes today is what the golden file holds: names, order, numbers, escapes, signatures."""
    assert samples()[name] == golden(name)


def test_every_golden_file_is_compared() -> None:
    """No golden file lies about unread."""
    assert {path.name for path in GOLDEN.iterdir()} == set(samples())


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("envelope-signed.json", Envelope),
        ("envelope-replacing.json", Envelope),
        ("envelope-stored.json", StoredEnvelope),
        ("accepted.json", Accepted),
        ("queued.json", Queued),
        ("scheduled.json", Scheduled),
        ("poll-answer.json", PollAnswer),
        ("poll-request.json", PollRequest),
        ("ack-request.json", AckRequest),
        ("receive-request.json", ReceiveRequest),
        ("receive-answer.json", ReceiveAnswer),
        ("nack-request.json", NackRequest),
        ("replay-job-request.json", ReplayJobRequest),
        ("replay-job.json", ReplayJobView),
    ],
)
def test_models_read_the_wire_and_write_it_back(name: str, model: type[Model]) -> None:
    """Each golden document passes its model, and what the model writes says the same."""
    document = decode(golden(name))
    assert decode(encode(dump(check(model, document)))) == document


def test_the_golden_envelope_verifies() -> None:
    """A signature made by an earlier release verifies today, and by the standard library alone."""
    envelope = decode(golden("envelope-signed.json"))
    assert verify_envelope(envelope, KEYRING, NOW_US) is None
    stated = envelope["signature"].pop("value")
    text = golden("envelope-canonical.json").replace(f',"value":"{stated}"'.encode(), b"")
    assert hmac.new(KEYRING.current.secret, text, hashlib.sha256).hexdigest() == stated


def test_a_problem_says_what_its_kind_says() -> None:
    """Each golden problem has the status, title and flag of its kind; kinds may be added, none may go or change."""
    documents: list[dict[str, Any]] = json.loads(golden("problems.json"))
    assert {document["type"] for document in documents} == set(KINDS)
    for document in documents:
        assert Problem.from_document(document).document() == document
        assert check(ProblemDocument, document).status == KINDS[document["type"]].status
