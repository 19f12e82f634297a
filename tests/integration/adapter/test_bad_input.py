"""What is wrong is a 4xx problem that names the field: never a 500, and the adapter serves on."""

import pytest

from adapter.core.contract import Registry
from shared.canonical import canonical
from shared.limits import BATCH_BYTES_MAX
from shared.link import MESSAGES_PATH, NACK_PATH, POLL_PATH
from shared.strict_json import encode
from tests.support.factories import envelope, signed
from tests.support.link_client import wall_us

FIELD = "/envelopes/0/payload"


@pytest.fixture
def link(near):
    """Most of what is asked here needs no process of its own."""
    return near


def body(payload: bytes) -> bytes:
    return b'{"envelopes":[{"payload":' + payload + b"}]}"


BODIES = {
    "empty": (b"", 400, "malformed-json", ""),
    "no json": (b"hello", 400, "malformed-json", ""),
    "truncated": (b'{"envelopes":[', 400, "malformed-json", ""),
    "two documents": (b"{}{}", 400, "malformed-json", ""),
    "trailing comma": (b'{"envelopes":[],}', 400, "malformed-json", ""),
    "BOM": (b"\xef\xbb\xbf{}", 400, "malformed-json", ""),
    "UTF-16": ('{"envelopes":[]}'.encode("utf-16"), 400, "malformed-json", ""),
    "invalid UTF-8": (body(b'"\xff"'), 400, "malformed-json", ""),
    "overlong UTF-8": (body(b'"\xc0\x80"'), 400, "malformed-json", ""),
    "encoded surrogate": (body(b'"\xed\xa0\x80"'), 400, "malformed-json", ""),
    "NUL byte": (body(b'"a\x00b"'), 400, "malformed-json", ""),
    "NaN": (body(b"NaN"), 422, "invalid-number", FIELD),
    "Infinity": (body(b"[1,-Infinity]"), 422, "invalid-number", FIELD + "/1"),
    "1e400": (body(b"1e400"), 422, "invalid-number", FIELD),
    "minus zero": (body(b"-0.0"), 422, "invalid-number", FIELD),
    "wide integer": (body(b"9007199254740993"), 422, "invalid-number", FIELD),
    "long fraction": (body(b"0.1000000000000000055511151231257827"), 422, "invalid-number", FIELD),
    "huge literal": (body(b"1" * 5_000), 422, "invalid-number", FIELD),
    "lone surrogate": (body(rb'"\ud83d"'), 422, "invalid-text", FIELD),
    "lone surrogate in a key": (body(rb'{"\udc00":1}'), 422, "invalid-text", FIELD),
    "escaped NUL": (body(rb'"a\u0000"'), 422, "invalid-text", FIELD),
    "duplicate key": (b'{"envelopes":[],"envelopes":[]}', 400, "malformed-json", "/envelopes"),
    "hidden duplicate": (body(rb'{"to":1,"t\u006f":2}'), 400, "malformed-json", FIELD + "/to"),
    "depth 65": (body(b"[" * 62 + b"]" * 62), 400, "malformed-json", ""),
    "depth 100,000": (b"[" * 100_000, 400, "malformed-json", ""),
    "an array": (b"[]", 422, "invalid-field", ""),
    "null": (b"null", 422, "invalid-field", ""),
    "no envelopes": (b"{}", 422, "invalid-field", "/envelopes"),
    "none": (b'{"envelopes":[]}', 422, "invalid-field", "/envelopes"),
    "no objects": (b'{"envelopes":[1]}', 422, "invalid-field", "/envelopes/0"),
    "unknown field": (b'{"envelopes":[{}],"extra":1}', 422, "unknown-field", "/extra"),
    "too many": (b'{"envelopes":[' + b",".join([b"{}"] * 101) + b"]}", 422, "invalid-field", "/envelopes"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_is_not_right(link, name):
    """Signed all the same: the sidecar is known, its request is wrong."""
    content, status, kind, field = BODIES[name]
    pm = await link.client("pm")
    answer = await pm.raw("POST", MESSAGES_PATH, content)
    assert (answer.status, answer.document["type"], answer.document["field"]) == (status, kind, field)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.sealed
    assert (await pm.send("@qa"))["code"] == 201


ENVELOPES = [
    ({"to": "nowhere"}, 422, "unknown-recipient", "/to"),
    ({"to": "@nobody"}, 422, "unknown-recipient", "/to"),
    ({"to": "@adapter"}, 422, "unknown-recipient", "/to"),
    ({"to": "Product"}, 422, "invalid-field", "/to"),
    ({"to": "product\n"}, 422, "invalid-field", "/to"),
    ({"to": "@"}, 422, "invalid-field", "/to"),
    ({"to": "x" * 64}, 422, "invalid-field", "/to"),
    ({"to": ["product"]}, 422, "invalid-field", "/to"),
    ({"to": None}, 422, "invalid-field", "/to"),
    ({"type": "note"}, 422, "invalid-field", "/type"),
    ({"type": "note/0"}, 422, "invalid-field", "/type"),
    ({"type": "nothing/1"}, 422, "unknown-contract", "/type"),
    ({"type": "note/2"}, 422, "unknown-contract", "/type"),
    ({"type": "alert.store/1"}, 403, "sender-not-allowed", "/type"),
    ({"type": "policy.update/1"}, 403, "sender-not-allowed", "/type"),
    ({"payload": "text"}, 422, "contract-violation", "/payload"),
    ({"payload": {"text": 1}}, 422, "contract-violation", "/payload/text"),
    ({"type": "task.result/1", "payload": {}}, 422, "contract-violation", "/task_id"),
    ({"idempotency_key": "1"}, 422, "invalid-field", "/idempotency_key"),
    ({"idempotency_key": "{00000000-0000-4000-8000-000000000000}"}, 422, "invalid-field", "/idempotency_key"),
    ({"idempotency_key": None}, 422, "invalid-field", "/idempotency_key"),
    ({"task_id": ""}, 422, "invalid-field", "/task_id"),
    ({"task_id": "x" * 129}, 422, "invalid-field", "/task_id"),
    ({"task_id": "a\nb"}, 422, "invalid-field", "/task_id"),
    ({"task_id": 1}, 422, "invalid-field", "/task_id"),
    ({"reply_to_sequence_id": 0}, 422, "invalid-field", "/reply_to_sequence_id"),
    ({"reply_to_sequence_id": 1.0}, 422, "invalid-field", "/reply_to_sequence_id"),
    ({"reply_to_sequence_id": True}, 422, "invalid-field", "/reply_to_sequence_id"),
    ({"reply_to_sequence_id": 99}, 422, "invalid-field", "/reply_to_sequence_id"),
    ({"expires_at": "tomorrow"}, 422, "invalid-field", "/expires_at"),
    ({"expires_at": "2027-01-15T08:00:00"}, 422, "invalid-field", "/expires_at"),
    ({"expires_at": "0001-01-01T00:00:00+23:59"}, 422, "expired", "/expires_at"),
    ({"expires_at": "2020-01-01T00:00:00Z"}, 422, "expired", "/expires_at"),
    ({"deadline": "2020-01-01T00:00:00Z", "expires_at": "2999-01-01T00:00:00Z"}, 422, "expired", "/deadline"),
    ({"deadline": "soon"}, 422, "invalid-field", "/deadline"),
    ({"receipts": [{"file_id": "f", "sha256": "x", "bytes": 1}]}, 422, "invalid-field", "/receipts/0/sha256"),
    ({"receipts": [{"file_id": "f", "sha256": "0" * 64, "bytes": -1}]}, 422, "invalid-field", "/receipts/0/bytes"),
    ({"usage": []}, 422, "invalid-field", "/usage"),
    ({"traceparent": "00-x"}, 422, "invalid-field", "/traceparent"),
    ({"tracestate": "a\r\nb"}, 422, "invalid-field", "/tracestate"),
    ({"surprise": 1}, 422, "unknown-field", "/surprise"),
    ({"priority": "critical"}, 422, "unknown-field", "/priority"),
    ({"channel_sequence_id": 7}, 422, "unknown-field", "/channel_sequence_id"),
    ({"timestamp_iso8601": "2027-01-15T08:00:00Z"}, 422, "unknown-field", "/timestamp_iso8601"),
    ({"inherited": []}, 422, "unknown-field", "/inherited"),
    ({"sender": "qa"}, 403, "sender-forged", "/sender"),
    ({"sender": "pm "}, 422, "invalid-field", "/sender"),
    ({"payload": {"text": "x" * 270_000}}, 413, "message-too-large", ""),
]


async def test_an_envelope_that_is_not_right_is_refused_alone(link):
    """Each with its own outcome and field, beside one that is right and is taken."""
    pm = await link.client("pm")
    for change, code, kind, field in ENVELOPES:
        bad = signed({**envelope("pm"), **change}, pm.keyring, wall_us())
        refused, taken = await pm.submit(bad, pm.envelope("@research"))
        problem = refused["problem"]
        assert (refused["code"], problem["type"], problem["field"]) == (code, kind, field), change
        assert (problem["status"], problem["retryable"]) == (code, False)
        assert len(encode(problem)) < 4_000
        assert taken["code"] == 201, change


@pytest.mark.parametrize("name", ["to", "type", "payload", "idempotency_key", "sender", "signature"])
async def test_what_must_be_there_is_asked_for(link, name):
    """By name."""
    pm = await link.client("pm")
    partial = pm.envelope("product")
    del partial[name]
    (outcome,) = await pm.submit(partial)
    assert (outcome["code"], outcome["problem"]["field"]) == (422, f"/{name}")


async def test_times_at_the_ends_of_the_calendar_are_taken(link):
    """The year 9999 with any offset is a time like another."""
    pm = await link.client("pm")
    for moment in ("9999-12-31T23:59:59.999999-23:59", "9999-12-31T23:59:59Z"):
        assert (await pm.send("@qa", expires_at=moment, deadline=moment))["code"] == 201
    assert len(await (await link.client("qa")).poll()) == 2


async def test_the_largest_envelope_is_taken_and_one_more_byte_is_not(link):
    """Measured as a sidecar measures it: as compact JSON, the signature apart."""
    pm = await link.client("pm")
    room = link.config.limits.envelope_bytes_max - len(encode(envelope("pm", "@qa", payload={"text": ""})))
    fits, over = (pm.envelope("@qa", payload={"text": "x" * length}) for length in (room, room + 1))
    assert [o["code"] for o in await pm.submit(fits)] == [201]
    assert [o["code"] for o in await pm.submit(over)] == [413]
    assert [o["code"] for o in await pm.submit(pm.envelope("@qa", payload={"text": "\u00e9" * (room // 2 + 1)}))] == [
        413
    ]


async def test_numbers_that_are_longer_in_canonical_form_are_measured_as_they_are_sent(link):
    """`1e20` has 21 digits when it is signed; what a sidecar has queued by its own measure must not be refused."""
    pm = await link.client("pm")
    numbers, another = (pm.envelope("@qa", context=[1e20] * 40_000) for _ in range(2))
    assert len(encode(numbers)) < link.config.limits.envelope_bytes_max < len(canonical(numbers))
    assert [outcome["code"] for outcome in await pm.submit(numbers, another)] == [201, 201]


@pytest.mark.filterwarnings("ignore:Sending a large body")  # aiohttp advises against it; here it is the point
async def test_the_largest_envelope_that_can_be_configured_travels(start):
    """It fits a request of the link; one that did not would stand in an outbox for ever."""
    limit = BATCH_BYTES_MAX - 64 * 1024
    link = await start(envelope_bytes_max=limit)
    pm = await link.client("pm")
    room = limit - len(encode(envelope("pm", "@qa", payload={"text": ""})))
    assert [o["code"] for o in await pm.submit(pm.envelope("@qa", payload={"text": "x" * room}))] == [201]


async def test_a_fault_of_ours_at_one_message_is_not_that_of_its_neighbours(near, monkeypatch):
    """It is answered apart, so that the sidecar can set it aside, and what stands behind it is held back."""
    pm = await near.client("pm")
    find = Registry.find

    def fail(registry, kind):
        if kind == "query/1":
            raise RuntimeError("a bug")
        return find(registry, kind)

    monkeypatch.setattr(Registry, "find", fail)
    broken = pm.envelope("@qa", type="query/1", payload={"question": "why?"})
    outcomes = await pm.submit(pm.envelope("@qa"), broken, pm.envelope("@qa"))
    assert [outcome["code"] for outcome in outcomes] == [201, 500, 424]
    assert (outcomes[1]["problem"]["type"], outcomes[1]["problem"]["retryable"]) == ("internal", False)


@pytest.mark.parametrize(
    ("target", "content", "field"),
    [
        (POLL_PATH, {"wait": -1}, "/wait"),
        (POLL_PATH, {"wait": 61}, "/wait"),
        (POLL_PATH, {"wait": "1"}, "/wait"),
        (POLL_PATH, {"max": 0}, "/max"),
        (POLL_PATH, {"max": 101}, "/max"),
        (POLL_PATH, {"max": 1.5}, "/max"),
        (POLL_PATH, {"max": True}, "/max"),
        (POLL_PATH, {"more": 1}, "/more"),
        (POLL_PATH, {"poll": "x"}, "/poll"),
        (POLL_PATH, {"lost": ["abcdef01"] * 17}, "/lost"),
        ("/link/v1/ack", {}, "/delivery_ids"),
        ("/link/v1/ack", {"delivery_ids": []}, "/delivery_ids"),
        ("/link/v1/ack", {"delivery_ids": ["a b"]}, "/delivery_ids/0"),
        ("/link/v1/ack", {"delivery_ids": ["1.1.a"], "results": {"2.1.a": 1}}, "/results/2.1.a"),
        ("/link/v1/ack", {"delivery_ids": ["1.1.a"], "results": {"1.1.a": "x" * 17_000}}, "/results/1.1.a"),
        ("/link/v1/ack", {"delivery_ids": ["1"] * 101}, "/delivery_ids"),
        ("/link/v1/nack", {"delivery_id": "1.1.a", "mode": "drop"}, "/mode"),
        ("/link/v1/nack", {"delivery_id": "1.1.a", "reason": "x" * 1_001}, "/reason"),
        ("/link/v1/extend", {"delivery_ids": ["1.1.a"]}, "/seconds"),
        ("/link/v1/extend", {"delivery_ids": ["1.1.a"], "seconds": 0}, "/seconds"),
        ("/link/v1/extend", {"delivery_ids": ["1.1.a"], "seconds": 3_601}, "/seconds"),
    ],
)
async def test_a_receivers_request_that_is_not_right(link, target, content, field):
    """422 with the field; nothing happens."""
    pm = await link.client("pm")
    answer = await pm.call("POST", target, content)
    assert (answer.status, answer.document["field"]) == (422, field)


async def test_the_shape_of_a_request_is_checked(link):
    """Media type, size, path and method: a problem each."""
    pm = await link.client("pm")
    plain = await pm.raw("POST", POLL_PATH, b"{}", {"Content-Type": "text/plain"})
    assert (plain.status, plain.document["type"]) == (415, "unsupported-media-type")
    large = await pm.raw("POST", NACK_PATH, b" " * 70_000)
    assert (large.status, large.document["type"]) == (413, "message-too-large")
    unknown = await pm.call("GET", "/link/v1/nothing")
    assert (unknown.status, unknown.document["type"]) == (404, "not-found")
    method = await pm.call("GET", POLL_PATH)
    assert (method.status, method.document["type"], method.headers["Allow"]) == (405, "method-not-allowed", "POST")
