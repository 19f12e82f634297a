"""Bad input: each a 4xx problem that names the field, never a 500, never a stuck outbox."""

import json

import pytest

from tests.integration.sidecar.harness import Deployment, key, message, until_health

_SMALL = b'{"to":"product","type":"note/1","payload":%s}'

_BODIES = {
    "not json": (b"{", 400, "malformed-json", ""),
    "empty": (b"", 400, "malformed-json", ""),
    "invalid utf-8": (_SMALL % b'"\xff"', 400, "malformed-json", ""),
    "bom": (b"\xef\xbb\xbf" + _SMALL % b"1", 400, "malformed-json", ""),
    "nan": (_SMALL % b"NaN", 422, "invalid-number", "/payload"),
    "infinity": (_SMALL % b"[-Infinity]", 422, "invalid-number", "/payload/0"),
    "overflow": (_SMALL % b"1e400", 422, "invalid-number", "/payload"),
    "wide integer": (_SMALL % b"9007199254740993", 422, "invalid-number", "/payload"),
    "rounded": (_SMALL % b"0.1000000000000000055511151231257827", 422, "invalid-number", "/payload"),
    "minus zero": (_SMALL % b"-0", 422, "invalid-number", "/payload"),
    "duplicate key": (_SMALL % b'1,"to":"qa"', 400, "malformed-json", "/to"),
    "duplicate key, escaped": (_SMALL % b'{"a":1,"\\u0061":2}', 400, "malformed-json", "/payload/a"),
    "lone surrogate": (_SMALL % b'{"a":"\\ud83d"}', 422, "invalid-text", "/payload/a"),
    "lone surrogate in a key": (_SMALL % b'{"\\ud83d":1}', 422, "invalid-text", "/payload"),
    "nul": (_SMALL % b'"\\u0000"', 422, "invalid-text", "/payload"),
    "too deep": (_SMALL % (b"[" * 64 + b"]" * 64), 400, "malformed-json", ""),
    "too deep once wrapped": (_SMALL % (b"[" * 62 + b"]" * 62), 400, "malformed-json", ""),
    "very deep": (_SMALL % (b"[" * 100_000 + b"]" * 100_000), 400, "malformed-json", ""),
    "array": (b"[]", 422, "invalid-field", ""),
    "too large": (_SMALL % (b'"' + b"x" * 262_144 + b'"'), 413, "message-too-large", ""),
    "far too large": (_SMALL % (b'"' + b"x" * 1_048_576 + b'"'), 413, "message-too-large", ""),
}

_FIELDS = {
    "unknown field": ({"payloads": 1}, "unknown-field", "/payloads"),
    "name with capitals": ({"to": "Product"}, "invalid-field", "/to"),
    "name with a newline": ({"to": "product\n"}, "invalid-field", "/to"),
    "name too long": ({"to": "x" * 64}, "invalid-field", "/to"),
    "empty name": ({"to": ""}, "invalid-field", "/to"),
    "cyrillic name": ({"to": "\N{CYRILLIC SMALL LETTER ER}m"}, "invalid-field", "/to"),
    "type without version": ({"type": "note"}, "invalid-field", "/type"),
    "key that is no uuid": ({"idempotency_key": "one"}, "invalid-field", "/idempotency_key"),
    "number as a text": ({"thread_id": 1}, "invalid-field", "/thread_id"),
    "control character": ({"correlation_id": "a\r\nb"}, "invalid-field", "/correlation_id"),
    "sequence zero": ({"reply_to_sequence_id": 0}, "invalid-field", "/reply_to_sequence_id"),
    "time without offset": ({"deadline": "2030-01-01T00:00:00"}, "invalid-field", "/deadline"),
    "a signature": ({"signature": {}}, "unknown-field", "/signature"),
    "a priority": ({"priority": "critical"}, "unknown-field", "/priority"),
    "a sequence": ({"channel_sequence_id": 1}, "unknown-field", "/channel_sequence_id"),
    "receipt": ({"receipts": [{"file_id": "f", "sha256": "X", "bytes": 1}]}, "invalid-field", "/receipts/0/sha256"),
    "unknown recipient": ({"to": "nowhere"}, "unknown-recipient", "/to"),
}


@pytest.mark.parametrize("adapter_up", [True, False])
async def test_bad_bodies(deployment: Deployment, adapter_up: bool) -> None:
    """With the adapter or without, the same refusal, and nothing is sent or queued."""
    async with deployment.sidecar() as client:
        if adapter_up:
            async with deployment.adapter():
                await until_health(client, adapter_reachable=True)
                await _check_all(client)
                assert deployment.fake.messages == []
        else:
            await _check_all(client)
        assert (await client.health())["outbox_depth"] == 0


async def _check_all(client) -> None:
    for name, (body, code, kind, field) in _BODIES.items():
        status, problem = await client.call("POST", "/v1/messages", body)
        assert (status, problem["type"], problem["field"]) == (code, kind, field), name
        assert "problem+json" in client.headers["Content-Type"]
    for name, (fields, kind, field) in _FIELDS.items():
        status, problem = await client.send(**fields)
        assert (status, problem["type"], problem["field"]) == (422, kind, field), name
    for missing in ("to", "type", "payload"):
        body = message()
        del body[missing]
        status, problem = await client.call("POST", "/v1/messages", body)
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", f"/{missing}")


async def test_the_deepest_message_that_is_taken_also_arrives(deployment: Deployment) -> None:
    """A message at the limit of nesting is no poison on the link."""
    async with deployment.adapter(), deployment.sidecar() as client:
        body = _SMALL % (b"[" * 61 + b"]" * 61)
        assert (await client.call("POST", "/v1/messages", body))[0] == 201
        assert json.dumps(deployment.fake.order("product")[0]) == "[" * 61 + "]" * 61


async def test_other_calls_refuse_in_the_same_way(deployment: Deployment) -> None:
    """Unknown paths, wrong methods and media types, and bad bodies of other calls are problems too."""
    async with deployment.adapter(), deployment.sidecar() as client:
        cases = [
            ("GET", "/nowhere", None, 404, "not-found"),
            ("DELETE", "/v1/messages", None, 405, "method-not-allowed"),
            ("POST", "/v1/messages/ack", {"delivery_ids": []}, 422, "invalid-field"),
            ("POST", "/v1/messages/ack", {"delivery_ids": ["a b"]}, 422, "invalid-field"),
            ("POST", "/v1/messages/ack", {"delivery_id": "d"}, 422, "invalid-field"),
            ("POST", "/v1/messages/nack", {"delivery_id": "d", "mode": "explode"}, 422, "invalid-field"),
            ("POST", "/v1/messages/extend", {"delivery_ids": ["d"], "seconds": 0}, 422, "invalid-field"),
            ("POST", "/v1/messages/extend", {"delivery_ids": ["d"], "seconds": 1e9}, 422, "invalid-field"),
            ("POST", "/v1/messages/batch", {"messages": []}, 422, "invalid-field"),
            ("POST", "/v1/messages/batch", {"messages": [message()] * 101}, 422, "invalid-field"),
            ("POST", "/v1/messages/batch", {"messages": [1]}, 422, "invalid-field"),
        ]
        for method, path, body, code, kind in cases:
            status, problem = await client.call(method, path, body)
            assert (status, problem["type"]) == (code, kind), (path, body)
        text = {"Content-Type": "text/plain"}
        status, problem = await client.call("POST", "/v1/messages", message(), headers=text)
        assert (status, problem["type"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", "hyphens left out"])
async def test_a_key_in_the_header_is_held_to_the_form_of_the_field(deployment: Deployment, form: str) -> None:
    """What `uuid.UUID` takes and the adapter does not is refused at once, and not queued to be buried later."""
    header = form % key(7) if "%" in form else key(7).replace("-", "")
    async with deployment.sidecar() as client:
        status, problem = await client.call("POST", "/v1/messages", message(), headers={"Idempotency-Key": header})
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", "header Idempotency-Key")
        assert (await client.health())["outbox_depth"] == 0


async def test_long_names_in_a_path_are_no_failure_of_the_link(deployment: Deployment) -> None:
    """Encoded for the link they would be thrice as long, more than the adapter reads, and open the breaker."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        failures = deployment.config.limits.breaker_failures
        for path in ("/v1/tasks/%s", "/v1/tasks/%s/lineage", "/v1/channels/%s/messages?from=1&to=1"):
            for _ in range(failures):
                status, problem = await client.call("GET", path % ("!" * 4_000))
                assert (status, problem["type"]) == (422, "invalid-field"), path
                assert problem["field"] in {"path task_id", "path channel"}
        assert (await client.call("GET", "/v1/tasks/" + "!" * 128))[0] == 200
        assert (await client.health())["breaker"] == "closed"
