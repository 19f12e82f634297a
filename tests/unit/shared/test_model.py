"""Bodies against their models: strict types, and faults that name the field as the sender wrote it."""

from typing import Any

import pytest

from shared.api import AckRequest, EmergencyRequest, ExtendRequest, ProblemDocument, SendRequest
from shared.identifiers import uuid7
from shared.link import PollRequest
from shared.model import Model, check
from shared.problems import KINDS, Problem

SEND = {"to": "product", "type": "note/1", "payload": {}}


def refusal(model: type[Model], body: dict[str, Any]) -> Problem:
    """The problem that `body` meets."""
    with pytest.raises(Problem) as caught:
        check(model, body)
    return caught.value


@pytest.mark.parametrize(
    ("model", "body", "kind", "field"),
    [
        (SendRequest, {"type": "note/1", "payload": 1}, "invalid-field", "/to"),
        (SendRequest, {**SEND, "to": "Product"}, "invalid-field", "/to"),
        (SendRequest, {**SEND, "to": "product\n"}, "invalid-field", "/to"),
        (SendRequest, {**SEND, "to": "@" + "a" * 64}, "invalid-field", "/to"),
        (SendRequest, {**SEND, "to": 5}, "invalid-field", "/to"),
        (SendRequest, {**SEND, "type": "note"}, "invalid-field", "/type"),
        (SendRequest, {**SEND, "reply_to_sequence_id": "5"}, "invalid-field", "/reply_to_sequence_id"),
        (SendRequest, {**SEND, "reply_to_sequence_id": True}, "invalid-field", "/reply_to_sequence_id"),
        (SendRequest, {**SEND, "reply_to_sequence_id": 1.0}, "invalid-field", "/reply_to_sequence_id"),
        (SendRequest, {**SEND, "deadline": "2024-01-01"}, "invalid-field", "/deadline"),
        (SendRequest, {**SEND, "thread_id": "a\x7f"}, "invalid-field", "/thread_id"),
        (SendRequest, {**SEND, "receipts": [{"file_id": "f", "bytes": 1}]}, "invalid-field", "/receipts/0/sha256"),
        (SendRequest, {**SEND, "payloaf": 1}, "unknown-field", "/payloaf"),
        (AckRequest, {"delivery_ids": []}, "invalid-field", "/delivery_ids"),
        (AckRequest, {"delivery_ids": ["a b"]}, "invalid-field", "/delivery_ids/0"),
        (AckRequest, {"delivery_ids": ["a"], "results": {"a b": 1}}, "invalid-field", "/results/a b"),
        (PollRequest, {"wait": "5"}, "invalid-field", "/wait"),
        (PollRequest, {"wait": True}, "invalid-field", "/wait"),
        (PollRequest, {"wait": 61}, "invalid-field", "/wait"),
        (PollRequest, {"max": 0}, "invalid-field", "/max"),
        (ExtendRequest, {"delivery_ids": ["a"], "seconds": "9"}, "invalid-field", "/seconds"),
        (EmergencyRequest, {"kind": "A", "summary": "x"}, "invalid-field", "/kind"),
    ],
)
def test_faults_name_the_field(model: type[Model], body: dict[str, Any], kind: str, field: str) -> None:
    """A wrong type, value or name is a 422 whose pointer is the field in the body."""
    problem = refusal(model, body)
    assert (problem.kind, problem.field, problem.status) == (kind, field, 422)


def test_whole_seconds_are_numbers_too() -> None:
    """A wait of `5` and of `5.0` are the same; strictness is about texts and booleans."""
    assert check(PollRequest, {"wait": 5}).wait == check(PollRequest, {"wait": 5.0}).wait == 5.0


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("01890a5d-ac96-774b-bcce-b302099a8057", True),
        ("01890A5D-AC96-774B-BCCE-B302099A8057", True),
        ("01890a5dac96774bbcceb302099a8057", False),
        ("{01890a5d-ac96-774b-bcce-b302099a8057}", False),
        ("urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057", False),
        ("\n1890a5dac96774bbcceb302099a8057", False),
        ("01890a5d-ac96-774b-bcce-b302099a8057\n", False),
        ("0189_a5dac96774bbcceb302099a8057", False),
        ("", False),
    ],
)
def test_idempotency_keys_have_one_spelling(key: str, good: bool) -> None:
    """Only the hyphenated text of RFC 9562 is a key: no line feed can reach a header, no key has two spellings."""
    if good:
        assert check(SendRequest, {**SEND, "idempotency_key": key}).idempotency_key == key
    else:
        assert refusal(SendRequest, {**SEND, "idempotency_key": key}).field == "/idempotency_key"


def test_unknown_fields_name_the_nearest_known() -> None:
    """A misspelt field is answered with the one that was probably meant."""
    assert "Did you mean 'payload'?" in refusal(SendRequest, {**SEND, "paylaod": 1}).detail


def test_answers_to_hostile_bodies_are_bounded() -> None:
    """A body of 10,000 unknown fields is not answered with 10,000 faults."""
    problem = refusal(SendRequest, {**SEND, **{f"x{n}": 0 for n in range(10_000)}})
    assert len(problem.extra["errors"]) == 20


def test_a_problem_survives_its_document() -> None:
    """A peer's problem keeps kind, words, field, waiting time and further members on its way through us."""
    problem = Problem("stale-lease", "gone", field="/a", retry_after=2.5, stale=["x"], kind="member", detail="other")
    again = Problem.from_document({**problem.document(), "kind": "member"})
    assert (again.kind, again.detail, again.field, again.retry_after) == ("stale-lease", "other", "/a", 2.5)
    assert again.extra["stale"] == ["x"]
    assert again.extra["kind"] == "member"


@pytest.mark.parametrize("kind", ["no-such-kind", None, 5, ["stale-lease"], {}])
def test_an_unknown_problem_becomes_internal_and_keeps_its_words(kind: Any) -> None:
    """Whatever a peer puts into `type`, the caller gets a problem of ours with the peer's words."""
    problem = Problem.from_document({"type": kind, "detail": "the words"})
    assert problem.kind == "internal"
    assert "the words" in problem.detail


def test_every_kind_has_a_document_of_its_model() -> None:
    """The document of each kind is what `ProblemDocument` describes, further members included."""
    for kind, spec in KINDS.items():
        document = Problem(kind, "why", field="/x", retry_after=1.0, errors=[]).document()
        assert check(ProblemDocument, document).status == spec.status
        assert (spec.status >= 500) <= (spec.retryable or kind == "internal")


def test_keys_we_make_are_ordered_uuids_of_version_7() -> None:
    """Keys made later sort later (to the millisecond), are unique, and say their version and variant."""
    made = [uuid7() for _ in range(2_000)]
    stamps = [key.int >> 80 for key in made]
    assert stamps == sorted(stamps)
    assert len(set(made)) == len(made)
    assert {(key.version, key.variant) for key in made} == {(7, "specified in RFC 4122")}
