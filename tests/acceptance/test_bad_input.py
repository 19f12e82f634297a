"""What must not be sent, given to a real sidecar, with the adapter up and with it dead: refused, and nothing sticks."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.times import from_iso, iso
from tests.support.agent_client import AgentClient
from tests.support.deployment import QUICK, Deployment, until
from tests.support.factories import new_key
from tests.support.invariant import read_store
from tests.support.store_hand import reading

_BODY = b'{"to":"product","type":"note/1","payload":%s}'
_WIDE = 2**53 + 1

_BYTES: dict[str, tuple[bytes, int, str, str]] = {
    "invalid UTF-8": (_BODY % b'"\xff\xfe"', 400, "malformed-json", ""),
    "an overlong UTF-8 form": (_BODY % b'"\xc0\xaf"', 400, "malformed-json", ""),
    "a surrogate in UTF-8": (_BODY % b'"\xed\xa0\x80"', 400, "malformed-json", ""),
    "a byte order mark": (b"\xef\xbb\xbf" + _BODY % b"1", 400, "malformed-json", ""),
    "UTF-16": ((_BODY % b"1").decode().encode("utf-16"), 400, "malformed-json", ""),
    "NaN": (_BODY % b'{"a":[NaN]}', 422, "invalid-number", "/payload/a/0"),
    "Infinity": (_BODY % b"Infinity", 422, "invalid-number", "/payload"),
    "minus Infinity": (_BODY % b'{"a":-Infinity}', 422, "invalid-number", "/payload/a"),
    "a double key": (_BODY % b'1,"payload":2', 400, "malformed-json", "/payload"),
    "a double key that is escaped": (_BODY % b'{"a":{"b":1,"\\u0062":2}}', 400, "malformed-json", "/payload/a/b"),
    "a lone high surrogate": (_BODY % b'{"a":["\\ud83d"]}', 422, "invalid-text", "/payload/a/0"),
    "a lone low surrogate": (_BODY % b'"\\udc00"', 422, "invalid-text", "/payload"),
    "NUL": (_BODY % b'{"a":"x\\u0000y"}', 422, "invalid-text", "/payload/a"),
    "NUL in a control field": (b'{"to":"pro\\u0000duct","type":"note/1","payload":1}', 422, "invalid-text", "/to"),
    "65 levels": (_BODY % (b"[" * 64 + b"]" * 64), 400, "malformed-json", ""),
    "100,000 levels": (_BODY % (b"[" * 100_000), 400, "malformed-json", ""),
    "a wide integer in the payload": (_BODY % b'{"n":%d}' % _WIDE, 422, "invalid-number", "/payload/n"),
    "a decimal that would be rounded": (_BODY % b"0.10000000000000000000001", 422, "invalid-number", "/payload"),
    "an exponent beyond a double": (_BODY % b"1e999", 422, "invalid-number", "/payload"),
    "no object": (b'["product"]', 422, "invalid-field", ""),
    "nothing": (b"", 400, "malformed-json", ""),
    "half a body": (_BODY[:20], 400, "malformed-json", ""),
    "two bodies": (_BODY % b"1" * 2, 400, "malformed-json", ""),
    "over 256 KiB": (_BODY % (b'"' + b"x" * 256 * 1024 + b'"'), 413, "message-too-large", ""),
    "10 MiB": (_BODY % (b'"' + b"x" * 10 * 2**20 + b'"'), 413, "message-too-large", ""),
}

_RECEIPT = {"file_id": "f", "sha256": "0" * 64, "bytes": 1}

_FIELDS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "a forged sender": ({"sender": "orchestrator"}, 403, "sender-forged", "/sender"),
    "the adapter's name": ({"sender": "adapter"}, 403, "sender-forged", "/sender"),
    "an unknown field": ({"channel": "product"}, 422, "unknown-field", "/channel"),
    "a signature": ({"signature": {}}, 422, "unknown-field", "/signature"),
    "a priority": ({"priority": "critical"}, 422, "unknown-field", "/priority"),
    "a sequence": ({"channel_sequence_id": 1}, 422, "unknown-field", "/channel_sequence_id"),
    "an unknown channel": ({"to": "produkt"}, 422, "unknown-recipient", "/to"),
    "an unknown agent": ({"to": "@nobody"}, 422, "unknown-recipient", "/to"),
    "capitals": ({"to": "Product"}, 422, "invalid-field", "/to"),
    "64 characters": ({"to": "a" * 64}, 422, "invalid-field", "/to"),
    "no name": ({"to": "@"}, 422, "invalid-field", "/to"),
    "a line feed after the name": ({"to": "product\n"}, 422, "invalid-field", "/to"),
    "a path": ({"to": "../product"}, 422, "invalid-field", "/to"),
    "a look-alike letter": ({"to": "рroduct"}, 422, "invalid-field", "/to"),  # noqa: RUF001 - that is the point
    "a name that is no text": ({"to": ["product"]}, 422, "invalid-field", "/to"),
    "a type without its version": ({"type": "note"}, 422, "invalid-field", "/type"),
    "a key that is no UUID": ({"idempotency_key": "1"}, 422, "invalid-field", "/idempotency_key"),
    "a wide sequence": ({"reply_to_sequence_id": _WIDE}, 422, "invalid-number", "/reply_to_sequence_id"),
    "a negative sequence": ({"reply_to_sequence_id": -1}, 422, "invalid-field", "/reply_to_sequence_id"),
    "a decimal sequence": ({"reply_to_sequence_id": 1.5}, 422, "invalid-field", "/reply_to_sequence_id"),
    "a wide size": ({"receipts": [{**_RECEIPT, "bytes": _WIDE}]}, 422, "invalid-number", "/receipts/0/bytes"),
    "an unknown field of a receipt": ({"receipts": [{**_RECEIPT, "x": 1}]}, 422, "unknown-field", "/receipts/0/x"),
    "a header in an id": ({"correlation_id": "a\r\nX: y"}, 422, "invalid-field", "/correlation_id"),
    "a time without its offset": ({"expires_at": "2030-01-01T00:00:00"}, 422, "invalid-field", "/expires_at"),
}


@asynccontextmanager
async def sending(folder: Path, *, adapter: bool) -> AsyncIterator[tuple[Deployment, AgentClient]]:
    """The sidecar of qa, with its adapter or without."""
    async with Deployment(folder, QUICK) as deployment:
        if adapter:
            await deployment.start_adapter()
        await deployment.start_sidecar("qa")
        async with AgentClient(deployment.config.sidecar_socket("qa")) as qa:
            await healthy(qa, adapter_reachable=adapter)
            yield deployment, qa


async def healthy(client: AgentClient, **expected: Any) -> None:
    """Wait until the health document says so."""

    async def said() -> bool:
        health = await client.health()
        return all(health[name] == value for name, value in expected.items())

    await until(said, f"health says {expected}")


async def check_refused(client: AgentClient, name: str, body: Any, expected: tuple[int, str, str]) -> None:
    """The refusal is the expected problem, and a retry of our own would not follow it."""
    answer = await client.call("POST", "/v1/messages", body)
    told = answer.status, answer.document["type"], answer.document["field"]
    assert told == expected, name
    assert (answer.content_type, answer.document["retryable"]) == ("application/problem+json", False), name


@pytest.mark.parametrize("adapter", [True, False], ids=["adapter up", "adapter down"])
async def test_bad_input_is_refused_at_once_and_leaves_nothing_behind(short_folder: Path, *, adapter: bool) -> None:
    """The same problem whether the adapter is there or not; the outbox stays empty and the next good send goes out."""
    async with sending(short_folder, adapter=adapter) as (deployment, qa):
        for name, (body, *expected) in _BYTES.items():
            await check_refused(qa, name, body, tuple(expected))
        for name, (fields, *expected) in _FIELDS.items():
            message = {"to": "product", "type": "note/1", "payload": {"text": "hello"}, **fields}
            await check_refused(qa, name, message, tuple(expected))
        health = await qa.health()
        assert (health["outbox_depth"], health["outbox_dead"]) == (0, 0)
        assert health["breaker"] == ("closed" if adapter else "open")
        if not adapter:
            await deployment.start_adapter()
            await healthy(qa, adapter_reachable=True)
        assert (await qa.send()).status == 201
        assert len(read_store(deployment.config.adapter_store).messages) == 1
        assert "Traceback" not in deployment.sidecars["qa"].log()


async def test_one_bad_message_of_a_batch_stands_alone(short_folder: Path) -> None:
    """Its neighbours are sent, each in its place, and it alone is refused."""
    async with sending(short_folder, adapter=True) as (_, qa):
        note = {"to": "product", "type": "note/1", "payload": {}}
        batch = [note, {**note, "sender": "pm"}, note, {**note, "type": "nothing/1"}, note]
        answer = await qa.call("POST", "/v1/messages/batch", {"messages": batch})
        assert [outcome["code"] for outcome in answer.document["outcomes"]] == [201, 403, 201, 422, 201]


async def test_what_only_the_adapter_knows_is_buried_and_the_rest_follows(short_folder: Path) -> None:
    """Queued while it is away, refused when it is back: counted as dead with the reason, and holding nothing up."""
    conflict = new_key()
    async with sending(short_folder, adapter=True) as (deployment, qa):
        assert (await qa.send(idempotency_key=conflict)).status == 201
        deployment.kill9_adapter()
        await healthy(qa, adapter_reachable=False)
        expires_at = iso(time.time_ns() // 1_000 + 200_000)
        bad: dict[str, dict[str, Any]] = {
            "unknown-contract": {"type": "nothing/1"},
            "contract-violation": {"payload": {"text": 1}},
            "sender-not-allowed": {"type": "policy.update/1", "payload": {"policy": "mine"}},
            "not-a-member": {"to": "platform"},
            "idempotency-conflict": {"idempotency_key": conflict, "payload": {"text": "other"}},
            "expired": {"expires_at": expires_at},
        }
        keys = []
        for number, fields in enumerate(bad.values()):
            assert (await qa.send(**fields)).status == 202
            answer = await qa.send(payload={"text": f"good {number}"})
            assert answer.status == 202
            keys.append(answer.document["idempotency_key"])
        await until(lambda: time.time_ns() // 1_000 > from_iso(expires_at), "the message expires")
        await deployment.start_adapter()
        await healthy(qa, adapter_reachable=True, outbox_depth=0, outbox_dead=len(bad))
        stored = [message.key for message in read_store(deployment.config.adapter_store).messages]
        assert stored == [conflict, *keys]
        assert _buried(deployment) == sorted(bad)
        figures = (await qa.call("GET", "/metrics")).document
        assert f'multiclaw_sidecar_outbox_dead{{agent="qa"}} {len(bad)}.0' in figures
        assert (await qa.send()).status == 201


def _buried(deployment: Deployment) -> list[str]:
    path = deployment.config.sidecar_state("qa") / "sidecar.db"
    with reading(path) as connection:
        rows = connection.execute("SELECT json_extract(CAST(problem AS TEXT), '$.type') FROM outbox_dead")
        return sorted(kind for (kind,) in rows)
