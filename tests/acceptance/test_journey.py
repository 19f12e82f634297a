"""One message's whole life, through two sidecars and an adapter that is killed on the way."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shared.times import from_iso, iso
from tests.support.deployment import QUICK, Deployment, until
from tests.support.described import DescribedClient
from tests.support.factories import new_key
from tests.support.invariant import STATES, read_store
from tests.support.link_client import LinkClient

_LIMITS = {
    **QUICK,
    "link_timeout_seconds": 2.0,
    "retry_base_seconds": 0.05,
}

_AGENTS_API = {
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/batch"),
    ("GET", "/v1/messages"),
    ("POST", "/v1/messages/ack"),
    ("POST", "/v1/messages/receive"),
    ("POST", "/v1/messages/nack"),
    ("POST", "/v1/messages/extend"),
    ("GET", "/v1/channels/{channel}/messages"),
    ("GET", "/v1/tasks/{task_id}"),
    ("GET", "/v1/tasks/{task_id}/lineage"),
    ("GET", "/v1/dead-letters"),
    ("GET", "/v1/dead-letters/groups"),
    ("GET", "/v1/dead-letters/{recipient}/{channel}/{sequence}"),
    ("POST", "/v1/dead-letters/replay"),
    ("POST", "/v1/dead-letters/resolve"),
    ("POST", "/v1/dead-letters/replays"),
    ("GET", "/v1/dead-letters/replays"),
    ("GET", "/v1/dead-letters/replays/{id}"),
    ("DELETE", "/v1/dead-letters/replays/{id}"),
    ("GET", "/v1/scheduled"),
    ("DELETE", "/v1/scheduled/{idempotency_key}"),
    ("GET", "/v1/topology"),
    ("GET", "/v1/topology/versions"),
    ("GET", "/v1/topology/versions/{version}"),
    ("POST", "/v1/topology/proposals"),
    ("GET", "/v1/outbox"),
    ("GET", "/v1/outbox/dead"),
    ("GET", "/v1/outbox/{idempotency_key}"),
    ("DELETE", "/v1/outbox/{idempotency_key}"),
    ("POST", "/v1/outbox/{idempotency_key}/resend"),
    ("POST", "/v1/emergency"),
    ("GET", "/health"),
    ("GET", "/metrics"),
}
"""The calls that agents were promised, `/openapi.json` itself apart."""

_LINK = {
    ("POST", "/link/v1/messages"),
    ("POST", "/link/v1/poll"),
    ("POST", "/link/v1/ack"),
    ("POST", "/link/v1/nack"),
    ("POST", "/link/v1/extend"),
    ("GET", "/link/v1/channels/{channel}/messages"),
    ("GET", "/link/v1/open"),
    ("GET", "/link/v1/tasks/{task_id}"),
    ("GET", "/link/v1/tasks/{task_id}/lineage"),
    ("GET", "/link/v1/dead-letters"),
    ("GET", "/link/v1/dead-letters/groups"),
    ("GET", "/link/v1/dead-letters/{recipient}/{channel}/{sequence}"),
    ("POST", "/link/v1/dead-letters/replay"),
    ("POST", "/link/v1/dead-letters/resolve"),
    ("POST", "/link/v1/dead-letters/replays"),
    ("GET", "/link/v1/dead-letters/replays"),
    ("GET", "/link/v1/dead-letters/replays/{id}"),
    ("DELETE", "/link/v1/dead-letters/replays/{id}"),
    ("GET", "/link/v1/scheduled"),
    ("DELETE", "/link/v1/scheduled/{idempotency_key}"),
    ("GET", "/link/v1/topology"),
    ("GET", "/link/v1/topology/versions"),
    ("GET", "/link/v1/topology/versions/{version}"),
    ("POST", "/link/v1/topology/proposals"),
    ("POST", "/link/v1/topology/versions/{version}/approve"),
    ("POST", "/link/v1/topology/versions/{version}/deny"),
    ("POST", "/link/v1/topology/versions/{version}/written"),
    ("GET", "/link/v1/governor/inbox"),
    ("POST", "/link/v1/governor/read"),
    ("GET", "/link/v1/governor/backups"),
    ("POST", "/link/v1/governor/backups"),
    ("GET", "/health"),
    ("GET", "/health/live"),
    ("GET", "/metrics"),
}
"""The calls that sidecars make."""


@asynccontextmanager
async def two_agents(folder: Path) -> AsyncIterator[tuple[Deployment, DescribedClient, DescribedClient]]:
    """An adapter and the sidecars of pm, over loopback TCP with its token, and of qa, over the Unix socket."""
    async with Deployment(folder, _LIMITS) as deployment:
        await deployment.start_adapter()
        await asyncio.gather(*(deployment.start_sidecar(agent) for agent in ("pm", "qa")))
        port = int(deployment.config.sidecar_port_file("pm").read_text())
        async with (
            DescribedClient(f"http://127.0.0.1:{port}", deployment.token("pm")) as pm,
            DescribedClient(deployment.config.sidecar_socket("qa")) as qa,
        ):
            await pm.describe()
            await qa.describe()
            await reaches(pm)
            await reaches(qa)
            yield deployment, pm, qa
            stopped = await deployment.stop_all()
            assert set(stopped.values()) == {0}, stopped


async def reaches(client: DescribedClient, *, reaches_adapter: bool = True, outbox: int = 0) -> None:
    """Wait until the sidecar's health says so."""

    async def said() -> bool:
        health = await client.health()
        waits = health["outbox_depth"], health["deferred_acks"]
        may_use = health["breaker"] == "closed" or not reaches_adapter
        return health["adapter_reachable"] is reaches_adapter and may_use and waits == (outbox, 0)

    await until(said, f"adapter_reachable {reaches_adapter} and outbox_depth {outbox}")


def statuses(answer: Any) -> dict[str, str]:
    """The rung of each recipient."""
    return {recipient["agent"]: recipient["status"] for recipient in answer.document["recipients"]}


async def test_one_message_from_its_sender_to_its_ack_across_a_kill(short_folder: Path) -> None:
    """201, leased, kill -9 of the adapter, an ack that waits, a send that waits, the restart, and both arrive."""
    first, second = new_key(), new_key()
    content = {
        "payload": {"text": "日本語 \U0001f980", "n": [1.0, 1, 1e300]},
        "task_id": "t-1",
        "context": {"why": None},
    }
    async with two_agents(short_folder) as (deployment, pm, qa):
        sent = await pm.send("@qa", idempotency_key=first, **content)
        assert (sent.status, sent.document["status"], statuses(sent)) == (201, "accepted", {"qa": "queued"})
        (message,) = await qa.take(1)
        envelope = message["envelope"]
        assert {name: envelope[name] for name in content} == content
        assert (envelope["sender"], envelope["channel_sequence_id"]) == ("pm", sent.document["channel_sequence_id"])
        assert envelope["timestamp_iso8601"] == sent.document["timestamp_iso8601"]
        assert (message["attempt"], message["redelivered"]) == (1, False)

        deployment.kill9_adapter()
        acked = await qa.ack(message["delivery_id"], results={message["delivery_id"]: {"verdict": "fine"}})
        assert acked.document == {"acked": [], "deferred": [message["delivery_id"]]}
        queued = await pm.send("@qa", idempotency_key=second)
        assert queued.status == 202
        assert queued.document == {"status": "queued", "outbox_position": 1, "idempotency_key": second}
        await reaches(pm, reaches_adapter=False, outbox=1)
        assert (await qa.poll(wait=1)).document["type"] == "adapter-unreachable"

        await deployment.start_adapter()
        await reaches(pm)
        await reaches(qa)
        (drained,) = await qa.take(1)
        assert drained["envelope"]["idempotency_key"] == second
        assert (await qa.ack(drained["delivery_id"])).document == {"acked": [drained["delivery_id"]], "deferred": []}
        for key, sequence, fields in ((first, 1, content), (second, 2, {})):
            again = await pm.send("@qa", idempotency_key=key, **fields)
            assert (again.status, again.document["status"]) == (200, "duplicate")
            assert again.document["channel_sequence_id"] == sequence
            assert statuses(again) == {"qa": "acked"}
        assert (await qa.poll()).document == {"messages": [], "gaps": []}


async def test_what_never_reached_its_receiver_is_a_gap_it_can_read(short_folder: Path) -> None:
    """A message that expired is a gap told with the next one, readable by range, and dead for its sender."""
    key = new_key()
    async with two_agents(short_folder) as (deployment, pm, qa):
        await pm.send("@qa")
        expires_at = iso(time.time_ns() // 1_000 + 300_000)
        expiring = {"payload": {"text": "too late"}, "expires_at": expires_at, "idempotency_key": key}
        assert (await pm.send("@qa", **expiring)).status == 201
        await until(lambda: time.time_ns() // 1_000 > from_iso(expires_at), "the message expires")
        assert (await pm.send("@qa", payload={"text": "third"})).status == 201
        polled = await qa.poll(wait=5)
        sequences = [message["envelope"]["channel_sequence_id"] for message in polled.document["messages"]]
        assert (sequences, polled.document["gaps"]) == ([1, 3], [{"channel": "@qa", "from": 2, "to": 2}])
        missed = await qa.call("GET", "/v1/channels/@qa/messages?from=2&to=2")
        assert (missed.status, missed.document["last"], missed.document.get("next")) == (200, 3, None)
        assert [message["payload"] for message in missed.document["messages"]] == [{"text": "too late"}]
        states = [dict(message.states) for message in read_store(deployment.config.adapter_store).messages]
        assert [STATES[state["qa"]] for state in states] == ["leased", "dead", "leased"]
        foreign = await pm.call("GET", "/v1/channels/@qa/messages?from=1&to=3")
        assert (foreign.status, foreign.document["type"]) == (403, "not-a-member")
        future = await qa.call("GET", "/v1/channels/@qa/messages?from=4&to=9")
        assert (future.status, future.document["type"]) == (416, "range-not-retained")


async def test_a_task_and_its_tree_are_told_from_its_messages(short_folder: Path) -> None:
    """Assigned, accepted and done, with every step, for the parent and its child alike."""
    async with two_agents(short_folder) as (_, pm, qa):
        root, child = {"task_id": "root"}, {"task_id": "child/1", "parent_task_id": "root"}
        steps = [
            (pm, "@qa", "task.assign/1", {"title": "test it"}, root),
            (qa, "@pm", "task.accept/1", {"note": "on it"}, root),
            (qa, "@pm", "task.assign/1", {"title": "a part"}, child),
            (pm, "@qa", "task.result/1", {"summary": "the part is done"}, child),
        ]
        for agent, to, kind, payload, task in steps:
            assert (await agent.send(to, type=kind, payload=payload, **task)).status == 201
        task = (await pm.call("GET", "/v1/tasks/root")).document
        assert (task["state"], task["parent_task_id"]) == ("accepted", None)
        assert [(step["sender"], step["type"]) for step in task["steps"]] == [
            ("pm", "task.assign/1"),
            ("qa", "task.accept/1"),
        ]
        tree = (await qa.call("GET", "/v1/tasks/child%2F1/lineage")).document
        assert tree["root"] == "root"
        assert [(each["task_id"], each["parent_task_id"], each["state"]) for each in tree["tasks"]] == [
            ("root", None, "accepted"),
            ("child/1", "root", "done"),
        ]
        unknown = await pm.call("GET", "/v1/tasks/nothing")
        assert (unknown.status, unknown.document["field"]) == (404, "path task_id")


async def test_the_token_guards_tcp_and_nothing_else_does(short_folder: Path) -> None:
    """Without the token, or with another's, loopback TCP answers 401 to everything but health, metrics and OpenAPI."""
    async with two_agents(short_folder) as (deployment, _, qa):
        port = int(deployment.config.sidecar_port_file("pm").read_text())
        for token in (None, deployment.token("qa"), "wrong", ""):
            async with DescribedClient(f"http://127.0.0.1:{port}", token) as stranger:
                await stranger.describe()
                assert (await stranger.health())["agent"] == "pm"
                assert (await stranger.call("GET", "/metrics")).status == 200
                for refused in (await stranger.send("@qa"), await stranger.poll(), await stranger.ack("x")):
                    assert (refused.status, refused.document["type"]) == (401, "unauthenticated")
                    assert refused.document["field"] == "header Authorization"
        assert (await qa.poll()).document["messages"] == []


async def test_an_emergency_says_where_it_was_written(short_folder: Path) -> None:
    """With the adapter dead an agent can still call for help, and is told the truth about who heard it."""
    async with two_agents(short_folder) as (deployment, pm, _):
        deployment.kill9_adapter()
        call = {"kind": "no-progress", "summary": "nobody answers", "details": {"since": "noon"}}
        answer = await pm.call("POST", "/v1/emergency", call)
        assert answer.status == 201
        written = deployment.config.sidecar_state("pm") / "emergencies.jsonl"
        assert answer.document in ({"recorded": "journald"}, {"recorded": "file"})
        assert written.exists() == (answer.document == {"recorded": "file"})
        assert not written.exists() or "nobody answers" in written.read_text()
        await deployment.start_adapter()


async def test_one_request_acknowledges_and_takes_the_next(short_folder: Path) -> None:
    """The second of two messages of one order comes with the answer to the ack of the first, and none after it."""
    async with two_agents(short_folder) as (_, pm, qa):
        sequences = [(await pm.send("@qa")).document["channel_sequence_id"] for _ in range(2)]
        (held,) = await qa.take(1)
        for sequence in (*sequences[1:], None):
            answer = await qa.receive(held["delivery_id"])
            assert answer.status == 200
            assert answer.document["acks"]["answer"] == {"acked": [held["delivery_id"]], "deferred": []}
            handed = answer.document["messages"]
            assert [message["envelope"]["channel_sequence_id"] for message in handed] == (
                [sequence] if sequence else []
            )
            held = handed[0] if handed else held


async def test_metrics_and_health_follow_what_happens(short_folder: Path) -> None:
    """Counters of both processes tell of a send, a queued send, a drain and a hand-over."""
    async with two_agents(short_folder) as (deployment, pm, qa):
        await pm.send("@qa")
        deployment.kill9_adapter()
        assert (await pm.send("@qa")).status == 202
        await reaches(pm, reaches_adapter=False, outbox=1)
        health = await pm.health()
        assert (health["status"], health["agent"]) == ("degraded", "pm")
        assert health["pid"] == deployment.sidecars["pm"].pid
        assert _gauge(await pm.call("GET", "/metrics"), "multiclaw_sidecar_outbox_depth") == 1
        await deployment.start_adapter()
        await reaches(pm)
        await reaches(qa)
        await qa.take(2)
        figures = await pm.call("GET", "/metrics")
        for name, value in {"sends_accepted_total": 1, "sends_queued_total": 1, "outbox_drained_total": 1}.items():
            assert _gauge(figures, f"multiclaw_sidecar_{name}") == value, name
        assert _gauge(await qa.call("GET", "/metrics"), "multiclaw_sidecar_deliveries_handed_total") == 2
        async with LinkClient(deployment.config.adapter_socket, deployment.keyring("pm")) as link:
            ready = (await link.health()).document
            assert (ready["status"], ready["queues"]["qa"]) == ("ready", 2)
            assert 'multiclaw_queue_depth{agent="qa"} 2.0' in (await link.call("GET", "/metrics")).document


_UUID = "00000000-0000-4000-8000-000000000000"
_NAMES = {
    "channel": "product", "task_id": "t", "recipient": "qa", "sequence": "1", "version": "1", "id": _UUID,
    "idempotency_key": _UUID,
}  # fmt: skip


async def test_both_surfaces_describe_all_they_serve(short_folder: Path) -> None:
    """Each OpenAPI document names exactly the promised operations, and every one of them is really there."""
    async with two_agents(short_folder) as (deployment, pm, _):
        document = pm.document
        assert document is not None
        assert _operations(document) == _AGENTS_API
        for method, path in _AGENTS_API:
            answer = await pm.call(method, path.format(**_NAMES), {})
            assert answer.status != 405, path  # and `pm` has held each answer against the document
        async with LinkClient(deployment.config.adapter_socket, deployment.keyring("pm")) as link:
            document = (await link.call("GET", "/openapi.json")).document
            assert _operations(document) == _LINK
            for method, path in _LINK:
                body = {} if method == "POST" else None
                told = await link.call(method, path.format(**_NAMES), body)
                described = document["paths"][path][method.lower()]["responses"]
                assert told.status != 405, path
                assert str(told.status) in described, (method, path, told)


def _operations(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path != "/openapi.json"
    }


def _gauge(answer: Any, name: str) -> float:
    lines = [line for line in answer.document.splitlines() if line.startswith(name + "{")]
    assert len(lines) == 1, f"{name} is not among the figures"
    return float(lines[0].rpartition(" ")[2])
