"""Agents that vanish at any moment of a request to their sidecar, with the adapter there and without it.

Whatever the point, the same request works when it is made again, what was accepted is there once, nothing is given to
an agent twice as if it were new, and no message is kept for an agent that has gone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.app import adapter
from sidecar.app import application
from tests.support.agent_client import AgentAnswer, AgentClient
from tests.support.cutting import MOMENTS, SECONDS_MAX, Ask, Cutter, Moment
from tests.support.deployment import QUICK, Deployment, until
from tests.support.factories import new_key
from tests.support.invariant import History, read_store, violations
from tests.support.store_hand import holding

LIMITS = {**QUICK, "lease_seconds": 4 * SECONDS_MAX}
LONG = 150_000
SEND, BATCH, POLL, ACK, RECEIVE = (f"/v1/messages{rest}" for rest in ("", "/batch", "", "/ack", "/receive"))


class Pair:
    """Two agents at their sidecars, in the process of the adapter, which comes and goes."""

    def __init__(self, deployment: Deployment, pm: AgentClient, qa: AgentClient) -> None:
        self.deployment = deployment
        self.pm = pm
        self.qa = qa
        self.history = History()
        self.accepted: list[int] = []  # payloads in the order of their sends

    def content(self, characters: int = 5) -> dict[str, Any]:
        """The next message from pm to qa."""
        payload = {"n": len(self.accepted), "text": "x" * characters}
        return {"to": "@qa", "type": "note/1", "payload": payload, "idempotency_key": new_key()}

    async def sent(self, content: dict[str, Any], answer: AgentAnswer | None = None) -> None:
        """It is accepted, now or as `answer` says."""
        told = answer or await self.pm.call("POST", SEND, content)
        assert told.status in {200, 201, 202}, told.document
        self.history.sent("pm", content, told.status, told.document)
        if content["payload"]["n"] == len(self.accepted):
            self.accepted.append(content["payload"]["n"])

    async def send(self, characters: int = 5) -> int:
        """A message that waits for qa; its number."""
        await self.sent(self.content(characters))
        return self.accepted[-1]

    async def taken(self, *numbers: int, answer: AgentAnswer | None = None) -> list[str]:
        """The deliveries of these and no other, from `answer` or as they are given now."""
        told = answer if answer and answer.document["messages"] else await self.qa.poll(wait=SECONDS_MAX)
        assert told.status == 200, told.document
        messages = told.document["messages"]
        self.history.received("qa", messages)
        assert [message["envelope"]["payload"]["n"] for message in messages] == list(numbers)
        assert told.document["gaps"] == []
        return [message["delivery_id"] for message in messages]

    async def done(self, deliveries: list[str]) -> None:
        """They are acknowledged, and nothing else waits."""
        acked = await self.qa.ack(*deliveries)
        assert (acked.status, acked.document) == (200, {"acked": deliveries, "deferred": []})
        assert (await self.qa.poll()).document["messages"] == []

    def is_settled(self) -> bool:
        """Whether each that was accepted is in the store once, and acknowledged."""
        return dict(read_store(self.deployment.config.adapter_store).census()) == {"acked": len(self.accepted)}

    @contextlib.asynccontextmanager
    async def reached(self) -> AsyncIterator[None]:
        """The adapter runs, and both sidecars use their links."""
        async with adapter(self.deployment.config):
            await self.deployment.connected("pm", "qa")
            yield

    async def is_cut_off(self) -> bool:
        """Whether both sidecars know that there is no adapter."""
        told = [await agent.health() for agent in (self.pm, self.qa)]
        return not any(health["adapter_reachable"] or health["breaker"] == "closed" for health in told)


@pytest.fixture
async def pair(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Pair, Cutter]]:
    """No adapter yet. At the end it is there, and what is in its store must fit what was seen."""
    cutter = Cutter(monkeypatch)
    async with contextlib.AsyncExitStack() as stack:
        deployment = await stack.enter_async_context(Deployment(short_folder, LIMITS))
        agents = []
        for name in ("pm", "qa"):
            await stack.enter_async_context(application(deployment.config_path, name))
            agents.append(await stack.enter_async_context(AgentClient(deployment.config.sidecar_socket(name))))
        made = Pair(deployment, *agents)
        yield made, cutter
        assert violations(made.history, deployment.config.adapter_store, deployment.members) == []
        assert made.is_settled()
        for name in ("pm", "qa"):
            with holding(deployment.config.sidecar_store(name)):
                pass  # nobody else holds it


async def _send(pair: Pair, ask: Ask, characters: int = 5) -> None:
    content = pair.content(characters)
    await pair.sent(content, await ask(pair.pm.call("POST", SEND, content)))
    await pair.sent(content)
    await pair.done(await pair.taken(pair.accepted[-1]))


async def _long_send(pair: Pair, ask: Ask) -> None:
    """Its body comes in pieces, which are waited for."""
    await _send(pair, ask, LONG)


async def _batch(pair: Pair, ask: Ask) -> None:
    first = pair.content()
    second = pair.content()
    second["payload"]["n"] += 1
    await ask(pair.pm.call("POST", BATCH, {"messages": [first, second]}))
    for content in (first, second):
        await pair.sent(content)
    await pair.done(await pair.taken(*pair.accepted[-2:]))


async def _poll(pair: Pair, ask: Ask) -> None:
    number = await pair.send()
    await pair.done(await pair.taken(number, answer=await ask(pair.qa.poll())))


async def _long_poll(pair: Pair, ask: Ask) -> None:
    """Its answer is more than a socket takes at once, so that writing it waits for the agent."""
    numbers = [await pair.send(LONG) for _ in range(3)]
    await pair.done(await pair.taken(*numbers, answer=await ask(pair.qa.poll())))


async def _parked_poll(pair: Pair, ask: Ask) -> None:
    """The message comes while the poll waits, or after its agent has gone."""
    content = pair.content()
    answer, sent = await asyncio.gather(ask(pair.qa.poll(wait=0.2)), pair.pm.call("POST", SEND, content))
    await pair.sent(content, sent)
    await pair.done(await pair.taken(pair.accepted[-1], answer=answer))


async def _ack(pair: Pair, ask: Ask) -> None:
    deliveries = await pair.taken(await pair.send())
    await ask(pair.qa.ack(*deliveries))
    await pair.done(deliveries)


async def _receive(pair: Pair, ask: Ask) -> None:
    """The second message stands behind the first, which the request acknowledges."""
    first, second = await pair.taken(await pair.send()), await pair.send()
    answer = await ask(pair.qa.receive(*first))
    again = await pair.qa.receive(*first, wait=SECONDS_MAX if answer is None else 0)
    assert again.document["acks"] == {"code": 200, "answer": {"acked": first, "deferred": []}}
    await pair.done(await pair.taken(second, answer=answer or again))


async def _parked_receive(pair: Pair, ask: Ask) -> None:
    """The message comes while the request waits, or after its agent has gone; the ack is made in any case."""
    held, content = await pair.taken(await pair.send()), pair.content()
    answer, sent = await asyncio.gather(ask(pair.qa.receive(*held, wait=0.2)), pair.pm.call("POST", SEND, content))
    await pair.sent(content, sent)
    assert (await pair.qa.ack(*held)).document == {"acked": held, "deferred": []}
    await pair.done(await pair.taken(pair.accepted[-1], answer=answer))


async def _refused_receive(pair: Pair, ask: Ask) -> None:
    """The ack is of a hand-over that has ended, and its message comes with the refusal. Where neither reaches the
    agent, the message is given to it again, or absorbed as what it is known to have processed."""
    (held,) = await pair.taken(await pair.send())
    await pair.qa.nack(held, "release")
    answer = await ask(pair.qa.receive(held))

    async def is_over() -> bool:
        told = answer or await pair.qa.poll()
        for message in told.document["messages"]:
            await pair.qa.ack(message["delivery_id"])
        return pair.is_settled()

    await until(is_over, "nobody holds the message any more")


CASES: dict[str, tuple[str, str, Callable[[Pair, Ask], Awaitable[None]]]] = {
    "send": ("POST", SEND, _send),
    "long send": ("POST", SEND, _long_send),
    "batch": ("POST", BATCH, _batch),
    "poll": ("GET", POLL, _poll),
    "long poll": ("GET", POLL, _long_poll),
    "parked poll": ("GET", POLL, _parked_poll),
    "ack": ("POST", ACK, _ack),
    "receive": ("POST", RECEIVE, _receive),
    "parked receive": ("POST", RECEIVE, _parked_receive),
    "refused receive": ("POST", RECEIVE, _refused_receive),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("case", CASES)
async def test_nothing_stays_behind(pair: tuple[Pair, Cutter], case: str, moment: Moment) -> None:
    """Each call, cut at each of its points, and then made again."""
    made, cutter = pair
    method, path, ask_and_look = CASES[case]
    rounds = 0
    async with made.reached():
        for ask in cutter.cuts(method, path, moment):
            async with asyncio.timeout(SECONDS_MAX):
                await ask_and_look(made, ask)
            rounds += 1
    assert rounds > 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_sent_without_the_adapter_is_kept_once(pair: tuple[Pair, Cutter], moment: Moment) -> None:
    """Sends that go to the outbox, cut and made again: when the adapter comes each arrives once, in order."""
    made, cutter = pair
    await until(made.is_cut_off, "the sidecars know that there is no adapter")
    for ask in cutter.cuts("POST", SEND, moment):
        content = made.content()
        async with asyncio.timeout(SECONDS_MAX):
            await made.sent(content, await ask(made.pm.call("POST", SEND, content)))
            await made.sent(content)
    assert len(made.accepted) > 1
    async with made.reached():
        for number in made.accepted:
            told = await made.qa.poll(wait=SECONDS_MAX, count=1)
            (delivery,) = await made.taken(number, answer=told)
            assert (await made.qa.ack(delivery)).status == 200


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_acknowledged_without_the_adapter_stays_so(pair: tuple[Pair, Cutter], moment: Moment) -> None:
    """Acks that wait for the adapter, cut and made again: it hears of them when it is back, and none comes again."""
    made, cutter = pair
    async with made.reached():
        numbers = [await made.send() for _ in range(100)]
        waiting = await made.taken(*numbers, answer=await made.qa.poll(count=100))
    await until(made.is_cut_off, "the sidecars know that there is no adapter")
    acked = 0
    for ask, delivery in zip(cutter.cuts("POST", ACK, moment), waiting, strict=False):
        async with asyncio.timeout(SECONDS_MAX):
            await ask(made.qa.ack(delivery))
            assert (await made.qa.ack(delivery)).document == {"acked": [], "deferred": [delivery]}
        acked += 1
    assert acked > 1
    async with made.reached():
        assert (await made.qa.ack(*waiting[acked:])).status == 200
        await until(made.is_settled, "all are acknowledged")
        assert (await made.qa.poll()).document["messages"] == []
