"""Hostile bytes at the doors of real processes, under both of aiohttp's parsers: refused, and nothing smuggled is run.

The second request that each body of bytes carries is a good one, signed where it must be: if it were ever taken for a
request of its own, its message would be in the store (aiohttp#6182, GHSA-45c4-8wx5-qw6w, CVE-2023-30589).
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.link import MESSAGES_PATH
from tests.integration.shared.surface import exchange
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, until
from tests.support.invariant import read_store
from tests.support.link_client import LinkClient
from tests.support.malformed_http import MALFORMED

PARSERS = {"C parser": {}, "pure parser": {"AIOHTTP_NO_EXTENSIONS": "1"}}
NOTE = {"to": "@qa", "type": "note/1", "payload": {"text": "smuggled"}}


@pytest.fixture(params=PARSERS)
async def deployment(short_folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Deployment]:
    """An adapter and the sidecar of pm, with one parser or the other."""
    async with Deployment(short_folder, {"health_poll_seconds": 0.05}, development=True) as made:
        await made.start_adapter(PARSERS[request.param])
        await made.start_sidecar("pm", PARSERS[request.param])
        async with AgentClient(made.config.sidecar_socket("pm")) as pm:
            await until(lambda: reached(pm), "the sidecar reaches the adapter")
        yield made


async def reached(agent: AgentClient) -> bool:
    """Whether the sidecar reaches the adapter."""
    return bool((await agent.health())["adapter_reachable"])


def good_request(deployment: Deployment, door: str) -> tuple[bytes, Path, str]:
    """A request that sends a message, the socket it is for, and its path."""
    if door == "adapter":
        client = LinkClient(deployment.config.adapter_socket, deployment.keyring("pm"))
        body = {"envelopes": [client.envelope("@qa", payload=NOTE["payload"])]}
        return client.request_bytes("POST", MESSAGES_PATH, body), deployment.config.adapter_socket, MESSAGES_PATH
    content = json.dumps(NOTE).encode()
    head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    raw = f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
    return raw, deployment.config.sidecar_socket("pm"), "/v1/messages"


def stored(deployment: Deployment) -> int:
    """Messages in the adapter's store."""
    return len(read_store(deployment.config.adapter_store).messages)


@pytest.mark.parametrize("door", ["adapter", "sidecar"])
async def test_nothing_behind_malformed_bytes_is_run(deployment: Deployment, door: str) -> None:
    """At most one answer, a 4xx problem, and the connection is closed; the door serves on."""
    for name, raw in MALFORMED.items():
        good, socket, path = good_request(deployment, door)
        replies = await exchange(socket, raw.replace(b"/echo", path.encode()) + good)
        assert len(replies) <= 1, name
        for reply in replies:
            assert 400 <= reply.status < 500, name
            assert reply.is_problem, name
        assert stored(deployment) == 0, name
    good, socket, _ = good_request(deployment, door)
    (reply,) = await exchange(socket, good.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
    assert reply.status in {200, 201}
    assert stored(deployment) == 1


BROKEN_LINE = "a\r\nX-Evil: 1\r\n\r\nHTTP/1.1 200 OK"
FIELDS = ("correlation_id", "thread_id", "task_id", "to", "type", "idempotency_key", "sender")
NAMES = ("%0D%0AX-Evil:%201", "a%0AX-Evil:1", "%00", "%20HTTP/1.1%0D%0A")


async def test_line_breaks_reach_no_header(deployment: Deployment) -> None:
    """A field with line breaks is refused by name, or carried whole in the body; a name in a path, which the sidecar
    asks the adapter about, is encoded. No header is made of either, on the way to the adapter or back (a2a-rs#124)."""
    door = deployment.config.sidecar_socket("pm")
    for field in FIELDS:
        content = json.dumps(NOTE | {field: BROKEN_LINE}).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(content)}\r\n"
        (reply,) = await exchange(door, (head + "Content-Type: application/json\r\n\r\n").encode() + content)
        assert "x-evil" not in reply.headers
        if reply.status == 201:
            assert read_store(deployment.config.adapter_store).messages[-1].envelope[field] == BROKEN_LINE
        else:
            assert reply.status in {403, 422}
            assert json.loads(reply.body)["field"] == f"/{field}"
    for name in NAMES:
        for path in (f"/v1/channels/{name}/messages?from=1&to=1", f"/v1/tasks/{name}", f"/v1/dead-letters/{name}/x/1"):
            (reply,) = await exchange(door, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert "x-evil" not in reply.headers
            assert 400 <= reply.status < 500, (path, reply.body)
    async with AgentClient(door) as pm:
        assert (await pm.health())["breaker"] == "closed"
