"""The Human Governor as a recipient of its own: its inbox, and who may open it."""

import pytest

from adapter.app import adapter
from shared import link as link_api
from shared.keys import key_path
from shared.model import check
from shared.names import GOVERNOR
from tests.integration.adapter.conftest import Link


async def test_any_agent_reaches_the_governor(near):
    """Its inbox is a mailbox like any other, told apart from the agents' queues; its key opens it."""
    growth, governor = await near.client("growth"), await near.client(GOVERNOR)
    outcome = await growth.send("@human-governor", type="escalation/1", payload={"summary": "out of budget"})
    (report,) = outcome["answer"]["recipients"]
    assert (report["agent"], report["status"], report["unread"]) == (GOVERNOR, "queued", 1)
    health = (await growth.health()).document
    assert (health["governor_unread"], GOVERNOR in health["queues"], health["warnings"]) == (1, False, [])
    (message,) = await governor.poll()
    assert message["envelope"]["payload"] == {"summary": "out of budget"}


async def test_a_deployment_without_the_governors_key_starts_and_says_so(short_folder):
    """One that is older than the inbox: messages wait, nobody is taken for the Governor, and health names the cure."""
    async with Link(short_folder) as link:
        governor = await link.client(GOVERNOR)
        key_path(link.config.paths.keys, GOVERNOR).unlink()
        async with adapter(link.config):
            pm = await link.client("pm")
            assert (await pm.send("@human-governor"))["code"] == 201
            health = await pm.health()
            assert health.status == 200
            assert "no key for agent 'human-governor'" in health.document["warnings"][0]
            assert "multiclaw init --dir" in health.document["warnings"][0]
            answer = await governor.call("POST", "/link/v1/poll", {"wait": 0})
            assert (answer.status, answer.document["type"]) == (401, "signature-invalid")


async def opened(governor, query=""):
    """A page of the inbox."""
    answer = await governor.call("GET", link_api.INBOX_PATH + query)
    assert answer.status == 200, answer.document
    check(link_api.InboxPage, answer.document)
    return answer.document


async def read(governor, *sequences):
    """What became of marking these as read."""
    answer = await governor.call("POST", link_api.READ_PATH, {"sequences": list(sequences)})
    assert answer.status == 200, answer.document
    return check(link_api.ReadAnswer, answer.document)


def texts(page):
    return [message["envelope"]["payload"]["text"] for message in page["messages"]]


async def test_a_human_reads_in_any_order(near):
    """Looking leases nothing; what is read is acked, stays so over repetitions, and is seen again with `all`."""
    pm, governor = await near.client("pm"), await near.client(GOVERNOR)
    for n in range(4):
        await pm.send("@human-governor", payload={"text": f"m{n}"})
    for _ in range(2):
        assert texts(await opened(governor)) == ["m0", "m1", "m2", "m3"]
    assert await read(governor, 3, 1, 9) == link_api.ReadAnswer(read=[3, 1], missing=[9])
    assert await read(governor, 3) == link_api.ReadAnswer(read=[3], missing=[])
    assert texts(await opened(governor)) == ["m1", "m3"]
    everything = await opened(governor, "?all=true")
    assert [message["status"] for message in everything["messages"]] == ["acked", "queued", "acked", "queued"]
    assert (await pm.health()).document["governor_unread"] == 2
    assert near.violations() == []


async def test_the_inbox_comes_in_pages(near):
    """Each message once, read or not, whatever is read in between."""
    pm, governor = await near.client("pm"), await near.client(GOVERNOR)
    await pm.submit(*(pm.envelope("@human-governor", payload={"text": str(n)}) for n in range(7)))
    for query in ("?limit=3", "?limit=3&all=true"):
        found, after = [], ""
        while after is not None:
            page = await opened(governor, query + after)
            found += texts(page)
            after = page["next"] and f"&after={page['next']}"
        assert found == [str(n) for n in range(7)]
    first = await opened(governor, "?limit=3")
    await read(governor, 1, 2, 3)
    assert texts(await opened(governor, f"?after={first['next']}")) == ["3", "4", "5", "6"]


async def test_what_a_poll_has_taken_is_read_all_the_same(near):
    """A program that polls with the Governor's key holds nothing back from a human; its late ack is refused."""
    pm, governor = await near.client("pm"), await near.client(GOVERNOR)
    await pm.send("@human-governor", payload={"text": "one"})
    (message,) = await governor.poll()
    assert texts(await opened(governor)) == ["one"]
    assert (await read(governor, 1)).read == [1]
    assert await governor.poll() == []
    assert (await governor.nack(message["delivery_id"])).document["type"] == "stale-lease"


@pytest.mark.parametrize("agent", ["orchestrator", "pm"])
async def test_nobody_else_opens_the_inbox(near, agent):
    """An agent's key does not, the orchestrator's neither: nothing is shown and nothing is read."""
    client, governor = await near.client(agent), await near.client(GOVERNOR)
    await client.send("@human-governor")
    for method, path, body in (("GET", link_api.INBOX_PATH, None), ("POST", link_api.READ_PATH, {"sequences": [1]})):
        answer = await client.call(method, path, body)
        assert (answer.status, answer.document["type"], answer.sealed) == (403, "not-permitted", True)
    assert len((await opened(governor))["messages"]) == 1


@pytest.mark.parametrize("query", ["?all=yes", "?after=-1", "?limit=0", "?limit=101"])
async def test_a_bad_question_names_its_field(near, query):
    """Nothing is guessed."""
    governor = await near.client(GOVERNOR)
    answer = await governor.call("GET", link_api.INBOX_PATH + query)
    assert (answer.status, answer.document["type"]) == (422, "invalid-field")
    assert answer.document["field"] == "query " + query[1:].partition("=")[0]


async def test_health_tells_when_each_agent_polled(start):
    """Also after a restart, give or take a minute; null for one that never did."""
    link = await start()
    pm, qa = await link.client("pm"), await link.client("qa")
    assert set((await pm.health()).document["last_seen"].values()) == {None}
    await qa.poll()
    seen = (await pm.health()).document["last_seen"]
    assert [agent for agent, moment in seen.items() if moment is not None] == ["qa"]
    report = (await pm.send("@qa"))["answer"]["recipients"][0]
    assert (report["unread"], report["last_seen"]) == (1, seen["qa"])
    check(link_api.AdapterHealth, (await pm.health()).document)


async def test_an_absent_agent_is_reported(start):
    """To the orchestrator, through a real adapter, without anybody polling or sending meanwhile."""
    link = await start(alert_window_seconds=0.5)
    await link.adapter.stop()
    await link.start_adapter({"MULTICLAW_ESCALATION__ABSENCE_SECONDS": "1"})
    pm, orchestrator = await link.client("pm"), await link.client("orchestrator")
    await pm.send("@qa")
    (message,) = await orchestrator.poll(wait=20)
    assert message["envelope"]["payload"].items() >= {"agent": "qa", "reason": "no poll for 1 s", "unread": 1}.items()
