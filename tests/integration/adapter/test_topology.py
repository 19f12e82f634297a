"""Members change over the link: proposed, decided, in force without a restart; and what a file means at a start."""

import asyncio
import contextlib

import pytest

from adapter.app import adapter
from shared import topology as wire
from shared.config import Membership, load
from shared.keys import create_key, key_path
from shared.link import POLL_PATH, ROOT
from shared.model import check
from shared.names import GOVERNOR
from tests.integration.adapter.conftest import Link
from tests.support.deployment import until
from tests.support.factories import AGENTS

ADD_OPS = {
    "agents": {"add": {"ops": {"role": "execution"}}},
    "channels": {"change": {"product": {"add": ["ops"]}}, "add": {"incidents": {"members": ["ops", "qa"]}}},
}
REMOVE_QA = {"agents": {"remove": ["qa"]}}


async def propose(link, change, reason="because", agent="orchestrator"):
    client = await link.client(agent)
    return await client.call("POST", ROOT + wire.PROPOSALS_PATH, {"change": change, "reason": reason})


async def decide(link, version, path=wire.APPROVE_PATH, **body):
    governor = await link.client(GOVERNOR)
    return await governor.call("POST", ROOT + path.format(version=version), body)


async def changed(link, change):
    """Proposed and approved; the new version."""
    proposal = await propose(link, change)
    assert proposal.status == 201, proposal.document
    answer = await decide(link, proposal.document["version"])
    assert answer.status == 200, answer.document
    check(wire.TopologyVersion, answer.document)
    return answer.document


async def read(link, target=wire.PATH, agent="pm"):
    answer = await (await link.client(agent)).call("GET", ROOT + target)
    assert answer.status == 200, answer.document
    return answer.document


def write(link, membership):
    """What a human's editor does to the file."""
    lines = []
    for name, agent in membership["agents"].items():
        lines += [f"[agents.{name}]", f'role = "{agent["role"]}"', f"port = {agent['port']}"]
    for name, channel in membership["channels"].items():
        lines += [f"[channels.{name}]", f"members = {channel['members']}"]
    link.config_path.write_text("\n".join(lines) + "\n", encoding="utf-8")


async def test_the_first_start_is_version_one(near):
    """The file as it was found, known to be in the file."""
    first = await read(near)
    assert (first["version"], first["base"], first["source"], first["state"], first["in_file"]) == (
        1, 0, "file", "current", True,
    )  # fmt: skip
    assert Membership.model_validate(first["topology"]) == near.config.membership


async def test_a_new_agent_is_let_in_without_a_restart(near):
    """From its approval on, and not before: it sends, polls, and gets what is sent to its channels."""
    create_key(near.config.paths.keys, "ops")
    ops = await near.client("ops")
    proposal = (await propose(near, ADD_OPS)).document
    assert (await ops.call("POST", POLL_PATH, {"wait": 0, "max": 1})).status == 401
    assert (await decide(near, proposal["version"], note="welcome")).document["note"] == "welcome"
    pm = await near.client("pm")
    assert (await pm.send("product"))["code"] == 201
    sent = await ops.send("incidents")
    assert (sent["code"], sent["answer"]["channel_sequence_id"]) == (201, 1)
    assert [m["envelope"]["to"] for m in await ops.poll()] == ["product", "incidents"]
    assert (await ops.read("incidents", 1)).status == 200


async def test_a_key_that_is_handed_to_a_running_adapter_lets_in(folder):
    """Where the folder of keys is what it was at the start, as credentials are: the agent joins by the key that was put
    into the other folder, and is let in again after a restart."""
    async with folder:
        key, handed = create_key(folder.config.paths.keys, "ops"), folder.config.handed_keys
        ops = await folder.client("ops")
        async with again(folder):
            handed.mkdir(mode=0o700)
            key.rename(handed / key.name)
            await changed(folder, ADD_OPS)
            assert (await ops.send("incidents"))["code"] == 201
        for _ in range(2):
            async with again(folder):
                assert (await ops.send("incidents"))["code"] == 201
                write(folder, (await read(folder))["topology"])


async def test_an_agent_without_a_key_is_not_approved(near):
    """The problem says where it must be; nothing was changed, and the proposal is still open."""
    number = (await propose(near, ADD_OPS)).document["version"]
    refused = await decide(near, number)
    assert (refused.status, refused.document["type"]) == (409, "key-missing")
    for keys in (near.config.paths.keys, near.config.handed_keys):
        assert str(key_path(keys, "ops")) in refused.document["detail"]
    assert (await read(near))["version"] == 1
    create_key(near.config.paths.keys, "ops")
    assert (await decide(near, number)).document["state"] == "current"


async def test_a_removed_agent_is_refused_by_a_sealed_answer(near):
    """Its sidecar can believe that it is out, also after a restart; its poll that waited has ended empty."""
    qa = await near.client("qa")
    waiting = asyncio.create_task(qa.poll(wait=30))
    pm = await near.client("pm")
    await until(lambda: _parked(qa, waiting), "the poll waits")
    await changed(near, REMOVE_QA)
    assert await waiting == []
    for target in (POLL_PATH,):
        answer = await qa.call("POST", target, {"wait": 0, "max": 1})
        assert (answer.status, answer.document["type"], answer.sealed) == (401, "unauthenticated", True)
    assert (await pm.send("@qa"))["problem"]["type"] == "unknown-recipient"


async def _parked(client, waiting):
    """A second poll that does not wait has been answered, so the first one has been decided."""
    assert not waiting.done()
    return await client.poll() == []


async def test_what_waited_for_a_removed_agent_is_a_dead_letter(near):
    """Named by the version; replayed once it is back, under its old key."""
    pm, qa, orchestrator = await near.client("pm"), await near.client("qa"), await near.client("orchestrator")
    await pm.submit(
        pm.envelope("@qa", payload={"n": 1}, task_id="a"), pm.envelope("@qa", payload={"n": 2}, task_id="b")
    )
    (held,) = await qa.poll(count=1)
    version = (await changed(near, REMOVE_QA))["version"]
    letters = (await orchestrator.call("GET", f"{ROOT}/dead-letters")).document["dead_letters"]
    assert {(each["reason"], each["detail"]) for each in letters} == {
        ("refused", f"qa is no agent since version {version} of the topology")
    }
    assert len(letters) == 2
    await changed(near, {"agents": {"add": {"qa": {}}}})
    assert (await qa.ack(held["delivery_id"])).document["type"] == "stale-lease"
    items = [{name: each[name] for name in ("recipient", "channel", "channel_sequence_id")} for each in letters]
    assert (await orchestrator.call("POST", f"{ROOT}/dead-letters/replay", {"items": items})).document["replayed"] == 2
    assert [m["envelope"]["payload"]["n"] for m in await qa.poll()] == [1, 2]


@pytest.mark.parametrize(
    ("agent", "method", "path", "body", "status", "kind"),
    [
        ("pm", "POST", wire.PROPOSALS_PATH, {"change": REMOVE_QA, "reason": "x"}, 403, "not-permitted"),
        (GOVERNOR, "POST", wire.PROPOSALS_PATH, {"change": REMOVE_QA, "reason": "x"}, 403, "not-permitted"),
        ("orchestrator", "POST", "/topology/versions/1/approve", {}, 403, "not-permitted"),
        ("orchestrator", "POST", "/topology/versions/1/deny", {}, 403, "not-permitted"),
        ("orchestrator", "POST", "/topology/versions/1/written", None, 403, "not-permitted"),
        (GOVERNOR, "POST", "/topology/versions/9/approve", {}, 404, "not-found"),
        (GOVERNOR, "POST", "/topology/versions/9/deny", {}, 404, "not-found"),
        (GOVERNOR, "POST", "/topology/versions/1/approve", {}, 409, "proposal-closed"),
        (GOVERNOR, "POST", "/topology/versions/1/approve", {"note": ""}, 422, "invalid-field"),
        (GOVERNOR, "POST", "/topology/versions/one/approve", {}, 422, "invalid-field"),
        (GOVERNOR, "POST", "/topology/versions/99999999999999999999/deny", {}, 422, "invalid-field"),
        ("pm", "GET", "/topology/versions/0", None, 404, "not-found"),
        ("pm", "GET", "/topology/versions?before=0", None, 422, "invalid-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH, {"change": {"agent": {}}, "reason": "x"}, 422, "unknown-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH, {"change": {}, "reason": "x"}, 422, "invalid-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH, {"change": REMOVE_QA}, 422, "invalid-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH, {"change": {"agents": {"remove": ["qq"]}}, "reason": "x"}, 422,
         "invalid-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH,
         {"change": {"agents": {"add": {"UPPER": {}}}}, "reason": "x"}, 422, "invalid-field"),
        ("orchestrator", "POST", wire.PROPOSALS_PATH,
         {"change": {"agents": {"add": {"a": {"role": "king"}}}}, "reason": "x"}, 422, "invalid-field"),
    ],
)  # fmt: skip
async def test_what_is_refused_changes_nothing(near, agent, method, path, body, status, kind):
    """Roles, numbers and bodies, each with its own problem."""
    answer = await (await near.client(agent)).call(method, ROOT + path, body)
    assert (answer.status, answer.document["type"], answer.sealed) == (status, kind, True)
    assert [version["version"] for version in (await read(near, wire.VERSIONS_PATH))["versions"]] == [1]


async def test_the_trail_is_paged_the_newest_first(near):
    """Everything that was ever proposed, whatever became of it."""
    for number in range(3):
        version = (await propose(near, REMOVE_QA, reason=f"{number}")).document["version"]
        await decide(near, version, wire.DENY_PATH)
    first = await read(near, f"{wire.VERSIONS_PATH}?limit=3")
    check(wire.TopologyVersions, first)
    assert [(each["version"], each["state"]) for each in first["versions"]] == [
        (4, "denied"), (3, "denied"), (2, "denied"),
    ]  # fmt: skip
    rest = await read(near, f"{wire.VERSIONS_PATH}?limit=3&before={first['next']}")
    assert ([each["version"] for each in rest["versions"]], rest["next"]) == ([1], None)
    assert (await read(near, "/topology/versions/3"))["decided_by"] == GOVERNOR


@contextlib.asynccontextmanager
async def again(link):
    """Another adapter over the same folder, with the file as it is now."""
    async with adapter(load(link.config_path, {})):
        yield


@pytest.fixture
def folder(short_folder):
    return Link(short_folder)


async def test_an_approval_outlives_a_restart_before_the_file_is_written(folder):
    """It stands, with a warning, as often as the adapter starts; once the file is written, an old file is an edit."""
    async with folder:
        async with again(folder):
            version = (await changed(folder, REMOVE_QA))["version"]
        for _ in range(2):
            async with again(folder):
                assert ((await read(folder))["version"], (await read(folder))["in_file"]) == (version, False)
                qa = await folder.client("qa")
                answer = await qa.call("POST", POLL_PATH, {"wait": 0, "max": 1})
                assert (answer.status, answer.sealed) == (401, True)
        async with again(folder):
            assert (await decide(folder, version, wire.WRITTEN_PATH)).document["in_file"]
        async with again(folder):
            edited = await read(folder)
            assert (edited["version"], edited["source"], edited["changes"][0]) == (
                3,
                "file",
                "agent qa joins as execution",
            )


async def test_an_edited_file_removes_by_the_same_rule(folder):
    """Its messages are dead letters of the version that the edit became; the same file again changes nothing."""
    async with folder:
        async with again(folder):
            pm = await folder.client("pm")
            await pm.send("@qa")
            membership = (await read(folder))["topology"]
        del membership["agents"]["qa"]
        for channel in membership["channels"].values():
            channel["members"] = [each for each in channel["members"] if each != "qa"]
        write(folder, membership)
        for _ in range(2):
            async with again(folder):
                assert (await read(folder))["version"] == 2
                orchestrator = await folder.client("orchestrator")
                (letter,) = (await orchestrator.call("GET", f"{ROOT}/dead-letters")).document["dead_letters"]
                assert letter["detail"] == "qa is no agent since version 2 of the topology"
                answer = await (await folder.client("qa")).call("POST", POLL_PATH, {"wait": 0, "max": 1})
                assert (answer.document["type"], answer.sealed) == ("unauthenticated", True)


async def test_nobody_else_notices(near):
    """A change is a commit like any other: who was not named keeps its queue, its lease and its poll."""
    pm = await near.client("pm")
    clients = [await near.client(agent) for agent in AGENTS if agent != "qa"]
    await pm.send("product")
    held = [(await client.poll())[0] for client in clients]
    await changed(near, REMOVE_QA)
    for client, message in zip(clients, held, strict=True):
        assert (await client.ack(message["delivery_id"])).status == 200
