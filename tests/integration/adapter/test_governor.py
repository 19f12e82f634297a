"""The Human Governor as a recipient of its own: its inbox, and who may open it."""

from adapter.app import adapter
from shared.keys import key_path
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
