"""Who speaks on the link is proven by each request, and what the adapter says by each answer (mcp_agent_mail#99)."""

import pytest

from shared.link import MESSAGES_PATH, POLL_PATH
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_request, verify_answer
from shared.strict_json import encode
from tests.support.factories import envelope, signed
from tests.support.link_client import wall_us

POLL = encode({"wait": 0, "max": 10})
GUARDED = [
    ("POST", MESSAGES_PATH), ("POST", POLL_PATH), ("POST", "/link/v1/ack"), ("POST", "/link/v1/nack"),
    ("POST", "/link/v1/extend"), ("GET", "/link/v1/channels/product/messages?from=1"), ("GET", "/link/v1/tasks/t"),
    ("GET", "/link/v1/tasks/t/lineage"),
]  # fmt: skip


@pytest.fixture
def link(near):
    """Most of what is asked here needs no process of its own."""
    return near


def header(client, method="POST", target=POLL_PATH, body=POLL, now_us=None):
    return sign_request(method, target, body, client.keyring, wall_us() if now_us is None else now_us)


@pytest.mark.parametrize(("method", "target"), GUARDED)
async def test_an_unsigned_request_is_refused_everywhere(link, method, target):
    """A missing signature is never "unsigned, fine"."""
    pm = await link.client("pm")
    answer = await pm.raw(method, target, b"{}" if method == "POST" else b"", {REQUEST_HEADER: ""})
    assert (answer.status, answer.document["type"]) == (401, "unauthenticated")
    assert answer.document["field"] == f"header {REQUEST_HEADER}"
    assert not answer.sealed


@pytest.mark.parametrize("target", ["/health", "/health/live", "/metrics", "/openapi.json"])
async def test_what_tells_nothing_needs_no_signature(link, target):
    """Probes have no keys."""
    pm = await link.client("pm")
    assert (await pm.raw("GET", target, b"", {REQUEST_HEADER: ""})).status == 200


@pytest.mark.parametrize(
    "forge",
    [
        lambda good: good.replace("pm ", "orchestrator ", 1),
        lambda good: good.replace("pm ", "nobody ", 1),
        lambda good: good.replace("pm ", "PM ", 1),
        lambda good: good[:-1] + ("0" if good[-1] != "0" else "1"),
        lambda good: good.rpartition(" ")[0] + " " + "0" * 64,
        lambda good: good.replace("pm-", "qa-", 1),
        lambda good: good.replace("Z", "+00:00", 1),
        lambda good: "x y z w",
    ],
)
async def test_a_forged_signature_opens_nothing(link, forge):
    """Another agent's name, another key, another time, another MAC."""
    pm = await link.client("pm")
    answer = await pm.raw("POST", POLL_PATH, POLL, {REQUEST_HEADER: forge(header(pm))})
    assert (answer.status, answer.document["type"], answer.sealed) == (401, "signature-invalid", False)


@pytest.mark.parametrize("value", ["one", "one two three", "a b c d e", "  "])
async def test_a_header_of_another_shape_is_no_signature(link, value):
    """Four words, or none."""
    pm = await link.client("pm")
    answer = await pm.raw("POST", POLL_PATH, POLL, {REQUEST_HEADER: value})
    assert (answer.status, answer.document["type"]) == (401, "unauthenticated")


async def test_a_signature_is_for_one_body_one_target_and_one_method(link):
    """What was signed is what is done."""
    pm = await link.client("pm")
    attempts = [
        ("POST", POLL_PATH, encode({"wait": 0, "max": 100}), header(pm)),
        ("POST", "/link/v1/ack", POLL, header(pm)),
        ("POST", POLL_PATH + "?x=1", POLL, header(pm)),
        ("GET", "/link/v1/channels/product/messages?from=1&to=9", b"",
         header(pm, "GET", "/link/v1/channels/product/messages?from=1&to=1", b"")),
        ("GET", "/link/v1/tasks/t", b"", header(pm, "POST", "/link/v1/tasks/t", b"")),
    ]  # fmt: skip
    for method, target, body, signature in attempts:
        answer = await pm.raw(method, target, body, {REQUEST_HEADER: signature})
        assert (answer.status, answer.document["type"]) == (401, "signature-invalid"), target


@pytest.mark.parametrize("seconds", [-302, 302, -(10**9), 10**9])
async def test_a_signature_has_its_time(link, seconds):
    """Five minutes either way; signing again helps."""
    pm = await link.client("pm")
    answer = await pm.raw("POST", POLL_PATH, POLL, {REQUEST_HEADER: header(pm, now_us=wall_us() + seconds * 10**6)})
    assert (answer.status, answer.document["type"]) == (401, "signature-stale")
    assert answer.document["retryable"] is True


@pytest.mark.parametrize("seconds", [-290, 290])
async def test_clocks_may_differ_a_little(link, seconds):
    """Within the tolerance all is well."""
    pm = await link.client("pm", now_us=lambda: wall_us() + seconds * 10**6)
    assert await pm.poll() == []
    assert (await pm.send("@qa"))["code"] == 201


async def test_an_answer_is_for_one_request_and_one_body(link):
    """Problems are signed like everything else; neither the body nor the request can be exchanged."""
    pm = await link.client("pm")
    good = header(pm)
    answer = await pm.raw("POST", POLL_PATH, POLL, {REQUEST_HEADER: good})
    stated, key = answer.headers[ANSWER_HEADER], pm.keyring.current
    assert verify_answer(key, good, 200, encode(answer.document), stated)
    assert not verify_answer(key, good, 200, encode({"messages": [1]}), stated)
    assert not verify_answer(key, header(pm, now_us=1), 200, encode(answer.document), stated)
    assert not verify_answer(link.keyring("qa").current, good, 200, encode(answer.document), stated)
    assert (await pm.ack("1.1.none")).sealed


async def test_a_sidecar_sends_for_its_own_agent_only(link):
    """Whoever signs the envelope, and whatever is written there."""
    pm, qa = await link.client("pm"), await link.client("qa")
    as_qa = envelope("qa")
    for forged in (signed(as_qa, pm.keyring, wall_us()), signed(as_qa, qa.keyring, wall_us())):
        (outcome,) = await pm.submit(forged)
        assert (outcome["code"], outcome["problem"]["type"]) == (403, "sender-forged")
        assert outcome["problem"]["field"] == "/sender"
    for name in ("pm ", "PM", "human governor", "\u0430", ""):
        (outcome,) = await pm.submit(signed(envelope(name), pm.keyring, wall_us()))
        assert (outcome["code"], outcome["problem"]["field"]) == (422, "/sender"), name
    for name in ("adapter", "human-governor", "orchestrator"):
        (outcome,) = await pm.submit(signed(envelope(name), pm.keyring, wall_us()))
        assert outcome["code"] == 403, name


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"text": "other"}}, {"to": "platform"}, {"type": "finding/1"}, {"task_id": "t"},
        {"idempotency_key": "00000000-0000-4000-8000-000000000000"},
        {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"},
    ],
)  # fmt: skip
async def test_a_changed_envelope_is_not_what_was_signed(link, change):
    """Every field is under the signature, key and trace included."""
    pm = await link.client("pm")
    (outcome,) = await pm.submit({**pm.envelope("product"), **change})
    assert (outcome["code"], outcome["problem"]["type"]) == (401, "signature-invalid")
    assert outcome["problem"]["field"] == "/signature/value"


async def test_the_signature_of_an_envelope_is_checked_whole(link):
    """Key, time and value; one that was signed long ago must be signed again."""
    pm, qa = await link.client("pm"), await link.client("qa")
    good = pm.envelope("product")
    stale = signed(envelope("pm"), pm.keyring, wall_us() - 302 * 10**6)
    with_signature = [
        (signed(envelope("pm"), qa.keyring, wall_us()), 401, "/signature/key_id"),
        (stale, 401, "/signature/signed_at"),
        ({k: v for k, v in good.items() if k != "signature"}, 422, "/signature"),
        ({**good, "signature": {**good["signature"], "alg": "none"}}, 422, "/signature/alg"),
        ({**good, "signature": {**good["signature"], "value": "0" * 64}}, 401, "/signature/value"),
        ({**good, "signature": {**good["signature"], "value": "\u00e9" * 64}}, 422, "/signature/value"),
        ({**good, "signature": {**good["signature"], "more": 1}}, 422, "/signature/more"),
        ({**good, "signature": "x"}, 422, "/signature"),
    ]  # fmt: skip
    outcomes = []
    for forged, *_ in with_signature:
        outcomes += await pm.submit(forged)
    assert [(o["code"], o["problem"]["field"]) for o in outcomes] == [(code, at) for _, code, at in with_signature]
    assert (await pm.submit(good))[0]["code"] == 201


async def test_signed_bytes_played_again_deliver_once(start):
    """Within its time a replay is a duplicate, also after a restart (connectors#8989)."""
    link = await start()
    pm, qa = await link.client("pm"), await link.client("qa")
    body = encode({"envelopes": [pm.envelope("@qa")]})
    signature = {REQUEST_HEADER: header(pm, "POST", MESSAGES_PATH, body)}
    codes = [(await pm.raw("POST", MESSAGES_PATH, body, signature)).document["outcomes"][0]["code"] for _ in range(3)]
    link.kill9_adapter()
    await link.start_adapter()
    codes.append((await pm.raw("POST", MESSAGES_PATH, body, signature)).document["outcomes"][0]["code"])
    assert codes == [201, 200, 200, 200]
    assert len(await qa.poll()) == 1


async def test_an_older_key_still_verifies(start):
    """The adapter answers with the key it was asked with."""
    link = await start()
    pm = await link.client("pm")
    old = pm.keyring.current
    path = link.config.paths.keys / "pm.key"
    path.write_text(f"pm-new {'ab' * 32}\n{old.key_id} {old.secret.hex()}\n", encoding="ascii")
    await link.adapter.stop()
    await link.start_adapter()
    assert (await pm.send("@qa"))["code"] == 201
    renewed = await link.client("pm")
    assert renewed.keyring.current.key_id == "pm-new"
    assert (await renewed.send("@qa"))["code"] == 201
