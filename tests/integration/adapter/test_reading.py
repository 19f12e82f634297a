"""Reading back: ranges, tasks, the document and the figures."""

import os

import pytest

from shared import dead_letters as dead
from shared import link as wire
from shared.problems import KINDS
from tests.support.factories import AGENTS

PATHS = {
    wire.MESSAGES_PATH, wire.POLL_PATH, wire.ACK_PATH, wire.NACK_PATH, wire.EXTEND_PATH, wire.CHANNEL_PATH,
    wire.OPEN_PATH, wire.TASK_PATH, wire.LINEAGE_PATH, "/health", "/health/live", "/metrics",
    *(wire.ROOT + path for path in (dead.PATH, dead.GROUPS_PATH, dead.ONE_PATH, dead.REPLAY_PATH, dead.RESOLVE_PATH)),
}  # fmt: skip


@pytest.fixture
def link(near):
    """Most of what is asked here needs no process of its own."""
    return near


async def test_a_receiver_reads_what_it_missed(link):
    """Acked or not, evicted or not: what is stored is readable by its channel's members (promise 9)."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.submit(*(pm.envelope("product", payload={"n": n}) for n in range(1, 61)))
    answer = await qa.read("product", 48, 60)
    assert [m["channel_sequence_id"] for m in answer.document["messages"]] == list(range(48, 61))
    assert [m["payload"]["n"] for m in answer.document["messages"]] == list(range(48, 61))
    assert (answer.document["last"], answer.document["next"]) == (60, None)
    (polled, *_) = await qa.poll(count=1)
    assert (await qa.read("product", 1)).document["messages"] == [polled["envelope"]]


async def test_an_agent_asks_what_may_still_come(link):
    """Waiting, in its hands, or dead and not resolved, in the order of messages; acked and others' are not told."""
    pm, qa, orchestrator = [await link.client(agent) for agent in ("pm", "qa", "orchestrator")]
    envelopes = [pm.envelope(to) for to in ("@qa", "@pm", "product", "@qa", "@qa")]
    envelopes[0] = pm.envelope("@qa", idempotency_key=envelopes[0]["idempotency_key"].upper())
    await pm.submit(*envelopes)
    handed = await qa.poll(count=3)
    await qa.ack(handed[1]["delivery_id"])
    await qa.nack(handed[2]["delivery_id"], "refuse")

    async def told(client):
        document = (await client.call("GET", wire.OPEN_PATH)).document
        assert (document["next"], document["forgotten_before"]) == (None, "1970-01-01T00:00:00.000000Z")
        assert {message["sender"] for message in document["messages"]} == {"pm"}
        return [message["idempotency_key"] for message in document["messages"]]

    keys = [envelope["idempotency_key"].lower() for envelope in envelopes]
    assert await told(qa) == [keys[0], keys[3], keys[4]]
    assert await told(pm) == [keys[1], keys[2]]
    item = {"recipient": "qa", "channel": "@qa", "channel_sequence_id": 2}
    await orchestrator.call("POST", wire.ROOT + dead.RESOLVE_PATH, {"items": [item]})
    assert await told(qa) == [keys[0], keys[4]]
    for after in ("-1", "x", "9" * 17):
        refused = await qa.call("GET", f"{wire.OPEN_PATH}?after={after}")
        assert (refused.status, refused.document["field"]) == (422, "query after")


async def test_what_may_still_come_is_told_in_pages(link, monkeypatch):
    """`next` leads to all of it, live and dead, each once."""
    monkeypatch.setattr("adapter.store.open_messages.PAGE_MAX", 2)
    pm, qa = await link.client("pm"), await link.client("qa")
    envelopes = [pm.envelope("@qa", task_id=f"t{number}") for number in range(5)]
    await pm.submit(*envelopes)
    for message in (await qa.poll())[::2]:
        await qa.nack(message["delivery_id"], "refuse")
    found, after = [], 0
    while after is not None:
        page = (await qa.call("GET", f"{wire.OPEN_PATH}?after={after}")).document
        assert len(page["messages"]) <= 2
        found += [message["idempotency_key"] for message in page["messages"]]
        after = page["next"]
    assert found == [envelope["idempotency_key"] for envelope in envelopes]


async def test_a_long_range_comes_in_pages(link):
    """`next` leads on to the end."""
    pm = await link.client("pm")
    for _ in range(3):
        await pm.submit(*(pm.envelope("@pm") for _ in range(70)))
    first, found = 1, []
    while first is not None:
        document = (await pm.read("@pm", first, 2**53 - 1)).document
        found += [m["channel_sequence_id"] for m in document["messages"]]
        first = document["next"]
    assert found == list(range(1, 211))


async def test_a_range_in_the_future_is_an_error(link):
    """Not an empty answer: the reader's cursor is wrong (A2A#1635)."""
    pm = await link.client("pm")
    await pm.send("product")
    for first in (2, 2**53 - 1):
        answer = await pm.read("product", first)
        assert (answer.status, answer.document["type"], answer.document["last"]) == (416, "range-not-retained", 1)
    assert (await pm.read("@pm", 1)).status == 416


async def test_ranges_are_for_members(link):
    """Of other agents' direct channels too."""
    qa = await link.client("qa")
    for channel, status, kind in (
        ("platform", 403, "not-a-member"), ("@pm", 403, "not-a-member"), ("nowhere", 422, "unknown-recipient"),
        ("%40pm", 403, "not-a-member"), ("a%2Fb", 422, "unknown-recipient"), ("%FF", 422, "invalid-field"),
        ("x" * 3_000, 422, "unknown-recipient"),
    ):  # fmt: skip
        answer = await qa.read(channel, 1)
        assert (answer.status, answer.document["type"]) == (status, kind), channel
        assert answer.document["field"] == "path channel"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "from"), ("?from=0", "from"), ("?from=-1", "from"), ("?from=x", "from"), ("?from=1.5", "from"),
        ("?from=9007199254740993", "from"), ("?from=" + "9" * 400, "from"), ("?from=%D9%A1", "from"),
        ("?from=5&to=4", "to"), ("?from=1&to=", "to"),
    ],
)  # fmt: skip
async def test_a_range_that_is_none_is_refused(link, query, field):
    """With the parameter's name."""
    pm = await link.client("pm")
    answer = await pm.call("GET", f"/link/v1/channels/product/messages{query}")
    assert (answer.status, answer.document["field"]) == (422, f"query {field}")


async def test_a_task_is_told_by_its_messages(link):
    """State, steps, and the tree from any of its leaves."""
    pm, engineering = await link.client("pm"), await link.client("engineering")
    await pm.submit(
        pm.envelope("product", type="task.assign/1", payload={"title": "root"}, task_id="root"),
        pm.envelope("@qa", type="task.assign/1", payload={"title": "leaf"}, task_id="leaf", parent_task_id="root"),
    )
    await engineering.send("product", type="task.accept/1", payload={}, task_id="root")
    task = (await pm.call("GET", "/link/v1/tasks/root")).document
    assert (task["state"], [step["type"] for step in task["steps"]]) == ("accepted", ["task.assign/1", "task.accept/1"])
    tree = (await pm.call("GET", "/link/v1/tasks/leaf/lineage")).document
    assert (tree["root"], [t["task_id"] for t in tree["tasks"]]) == ("root", ["root", "leaf"])
    for target in ("/link/v1/tasks/other", "/link/v1/tasks/other/lineage", "/link/v1/tasks/%00"):
        answer = await pm.call("GET", target)
        assert (answer.status, answer.document["field"]) == (404, "path task_id")


async def test_a_cyclic_lineage_ends(link):
    """Two tasks that call each other their parent (archestra#4462)."""
    pm = await link.client("pm")
    for task, parent in (("a", "b"), ("b", "a"), ("c", "c")):
        await pm.send("product", task_id=task, parent_task_id=parent)
    tree = (await pm.call("GET", "/link/v1/tasks/a/lineage")).document
    assert sorted(t["task_id"] for t in tree["tasks"]) == ["a", "b"]
    assert [t["task_id"] for t in (await pm.call("GET", "/link/v1/tasks/c/lineage")).document["tasks"]] == ["c"]


async def test_a_reply_inherits_its_thread(link):
    """Over the wire, with what was filled in named."""
    pm, qa = await link.client("pm"), await link.client("qa")
    sent = await pm.send("product", thread_id="th", correlation_id="co")
    await qa.send("product", reply_to_sequence_id=sent["answer"]["channel_sequence_id"])
    reply = (await pm.poll())[1]["envelope"]
    assert (reply["thread_id"], reply["correlation_id"]) == ("th", "co")
    assert reply["inherited"] == ["thread_id", "correlation_id"]


async def test_health_and_figures(link):
    """Queues by agent; Prometheus text."""
    pm = await link.client("pm")
    await pm.send("product")
    document = (await pm.health()).document
    assert (document["status"], document["pid"]) == ("ready", os.getpid())
    assert document["queues"] == dict.fromkeys(AGENTS, 1)
    text = (await pm.call("GET", "/metrics")).document
    assert "multiclaw_adapter_ready 1.0" in text
    assert 'multiclaw_queue_depth{agent="qa"} 1.0' in text
    for name in ("messages_pruned", "retention_last_pass_seconds", "clock_doubted"):
        assert f"multiclaw_{name} 0.0" in text


async def test_the_document_tells_every_route_and_every_refusal(link):
    """OpenAPI 3.1, from the table that serves; references resolve."""
    pm = await link.client("pm")
    document = (await pm.call("GET", "/openapi.json")).document
    assert document["openapi"].startswith("3.1.")
    assert set(document["paths"]) >= PATHS
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    told = {path: told_kinds(operation) for path, item in document["paths"].items() for operation in item.values()}
    assert told[wire.MESSAGES_PATH] >= {
        "malformed-json", "invalid-field", "unknown-field", "invalid-number", "invalid-text", "message-too-large",
        "unauthenticated", "signature-invalid", "signature-stale", "sender-forged", "sender-not-allowed",
        "approval-required", "not-a-member", "unknown-recipient", "unknown-contract", "contract-violation",
        "idempotency-conflict", "expired", "queue-full", "held-back", "store-unavailable", "unsupported-media-type",
        "internal",
    }  # fmt: skip
    assert told[wire.ACK_PATH] >= {"stale-lease", "unknown-delivery", "store-unavailable"}
    assert told[wire.CHANNEL_PATH] >= {"range-not-retained", "not-a-member", "unknown-recipient", "invalid-field"}
    assert told[wire.ROOT + dead.REPLAY_PATH] >= {"not-permitted", "not-dead", "expired", "queue-full", "not-found"}
    assert set.union(*told.values()) <= set(KINDS)


def references(value):
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def told_kinds(operation):
    kinds = set()
    for response in operation["responses"].values():
        schema = response["content"].get("application/problem+json", {}).get("schema", {})
        for part in schema.get("allOf", []):
            kinds |= set(part.get("properties", {}).get("type", {}).get("enum", []))
    return kinds
