"""Ten changes of members under traffic, with and without kill -9: nothing is lost, doubled, or sent to a mixture."""

import asyncio
import contextlib
import random

import aiohttp
import pytest

from shared import topology as wire
from shared.keys import create_key
from shared.link import ACK_PATH, POLL_PATH, ROOT
from shared.names import GOVERNOR
from tests.support.deployment import until
from tests.support.factories import AGENTS
from tests.support.invariant import read_store

CHANGES = [
    {"agents": {"add": {"ops": {}}}, "channels": {"change": {"product": {"add": ["ops"]}}}},
    {"channels": {"change": {"product": {"remove": ["qa"]}}}},
    {"channels": {"change": {"product": {"add": ["qa"]}}}},
    {"agents": {"remove": ["growth"]}},
    {"agents": {"add": {"growth": {}}}, "channels": {"change": {"product": {"add": ["growth"]}}}},
    {"channels": {"add": {"new": {"members": ["pm", "qa"]}}, "change": {"product": {"remove": ["research"]}}}},
    {"agents": {"remove": ["ops"]}},
    {"channels": {"remove": ["new"], "change": {"product": {"add": ["research"]}}}},
    {"agents": {"add": {"ops": {}}}, "channels": {"add": {"new": {"members": ["pm", "ops"]}}}},
    {"agents": {"remove": ["growth"]}, "channels": {"change": {"product": {"add": ["ops"]}}}},
]
SENDERS = ("pm", "engineering")
RECEIVERS = (*AGENTS, "ops")
ACKED, DEAD = 2, 3
AWAY = (aiohttp.ClientError, OSError, TimeoutError)


class Traffic:
    """Agents that send and receive without a pause, as their sidecars would: the same again until an answer comes."""

    def __init__(self, link, at_approval):
        self.link = link
        self.at_approval = at_approval
        self.accepted = 0
        self.ending = self.ended = False
        self.versions = [set(AGENTS)]
        self._processed = set()

    async def call(self, client, method, target, body):
        """One call, made again while nobody answers."""
        while True:
            with contextlib.suppress(*AWAY):
                answer = await client.call(method, target, body)
                if answer.status != 503:
                    return answer
            await asyncio.sleep(0.01)

    async def send(self, sender):
        """Messages to a channel that is always there, to one that is not, and to agents that come and go."""
        client = await self.link.client(sender)
        for number in range(1_000_000):
            if self.ending:
                return
            to = ("product", "@growth", "@ops", "new")[number % 4]
            envelope = client.envelope(to, payload={"n": number, "from": sender})
            answer = await self.call(client, "POST", f"{ROOT}/messages", {"envelopes": [envelope]})
            (outcome,) = answer.document["outcomes"]
            self.link.history.sent(sender, envelope, outcome["code"], outcome.get("answer", {}))
            assert outcome["code"] in (200, 201) or to != "product", outcome
            self.accepted += outcome["code"] in (200, 201)

    async def receive(self, agent):
        """Whatever comes, processed once and acknowledged; an agent that is none asks again."""
        client = await self.link.client(agent)
        while True:
            answer = await self.call(client, "POST", POLL_PATH, {"wait": 0.2, "max": 20})
            messages = answer.document["messages"] if answer.status == 200 else []
            assert answer.status in (200, 401), answer.document
            self.link.history.received(agent, messages)
            for message in messages:
                await self._process(client, agent, message)
            if self.ended:
                return
            if answer.status == 401:
                await asyncio.sleep(0.01)

    async def _process(self, client, agent, message):
        key = agent, message["envelope"]["sender"], message["envelope"]["idempotency_key"]
        if key not in self._processed:
            self._processed.add(key)
            self.link.history.apply(agent, message["envelope"])
        answer = await self.call(client, "POST", ACK_PATH, {"delivery_ids": [message["delivery_id"]]})
        assert answer.status in (200, 401, 409), answer.document

    async def change(self, change):
        """Proposed, approved, and seen by traffic."""
        orchestrator, governor = await self.link.client("orchestrator"), await self.link.client(GOVERNOR)
        body = {"change": change, "reason": "because"}
        proposal = await self.call(orchestrator, "POST", ROOT + wire.PROPOSALS_PATH, body)
        assert proposal.status == 201, proposal.document
        target = ROOT + wire.APPROVE_PATH.format(version=proposal.document["version"])
        disturbing = asyncio.create_task(self.at_approval())
        approved = await self.call(governor, "POST", target, {})
        await disturbing
        assert approved.status == 200, approved.document
        self.versions.append(set(approved.document["topology"]["channels"]["product"]["members"]))
        seen = self.accepted
        await until(lambda: self.accepted >= seen + 10, "traffic goes on")

    def settled(self):
        """Whether nothing waits for an agent, nor is in its hands."""
        view = read_store(self.link.config.adapter_store)
        return all(
            state in (ACKED, DEAD)
            for message in view.messages
            for agent, state in message.states.items()
            if agent != GOVERNOR
        )


async def run(link, at_approval):
    """All the changes under traffic, with `at_approval` beside each; then everything that is left is received."""
    traffic = Traffic(link, at_approval)
    create_key(link.config.paths.keys, "ops")
    senders = [asyncio.create_task(traffic.send(sender)) for sender in SENDERS]
    receivers = [asyncio.create_task(traffic.receive(agent)) for agent in RECEIVERS]
    for change in CHANGES:
        await traffic.change(change)
    traffic.ending = True
    await asyncio.gather(*senders)
    await until(traffic.settled, "all of it is received", seconds_max=30)
    traffic.ended = True
    await asyncio.gather(*receivers)
    return traffic


def check(link, traffic):
    """Each message went to the members of one version, versions in their order; all of it is processed or dead."""
    view = read_store(link.config.adapter_store)
    versions = iter(traffic.versions)
    members = next(versions)
    for message in view.messages:
        if message.channel == "product":
            while set(message.states) != members:  # runs dry where it is the members of no version, or of an earlier
                members = next(versions)
    assert members == traffic.versions[-1]
    assert len(view.messages) >= 10 * len(CHANGES)
    dead = {agent for message in view.messages for agent, state in message.states.items() if state == DEAD}
    assert dead <= {"growth", "ops"}
    moving = ("in none of queued", "has a delivery and is no recipient")
    found = link.violations()
    assert [each for each in found if not any(words in each for words in moving)] == []


async def test_ten_changes_under_traffic_lose_and_double_nothing(start):
    """Sends, polls and acks in flight at every change."""
    link = await start()

    async def nothing():
        """It is approved in peace."""

    check(link, await run(link, nothing))


@pytest.mark.parametrize("seed", [1, 2])
async def test_kill_9_leaves_one_version_or_the_other(start, seed):
    """The adapter dies at a moment drawn from a seed while each change is approved, and is started again."""
    link = await start(lease_seconds=1, attempts_max=100, retry_base_seconds=0.01)
    chance = random.Random(seed)

    async def kill():
        await asyncio.sleep(chance.uniform(0, 0.015))
        link.kill9_adapter()
        await link.start_adapter()

    check(link, await run(link, kill))
