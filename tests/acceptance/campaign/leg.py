"""A leg: up to ten rounds on one deployment, the census after each, and at the end every message settled."""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.acceptance.campaign.agents import Progress, Receiver, Sender
from tests.acceptance.campaign.faults import Hand
from tests.acceptance.campaign.notes import Notes
from tests.acceptance.campaign.plan import AGENTS, CHANNELS, Round, limits, plan
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, health, until
from tests.support.forked import ForkedProcess
from tests.support.invariant import read_store

LEG_ROUNDS_MAX = 10
"""Rounds on one deployment: enough for a store with a past, few enough that the census stays quick."""

_LANES = {"pm": 2, "qa": 2}
_SETTLE_SECONDS_MAX = 30.0


class CampaignFailure(AssertionError):  # noqa: N818 - a finding, not an error of the campaign
    """The census of a round was not clean; the text holds the command that plays it again."""


async def play_leg(first_seed: int, rounds: int, tell: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """Play rounds `first_seed` and following; what happened, counted. Raises `CampaignFailure`."""
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))  # short, for the sockets in it
    notes = Notes()
    seed = first_seed
    try:
        async with _deployment(folder, first_seed) as deployment:
            await deployment.start_all()
            for seed in range(first_seed, first_seed + rounds):
                await _play_round(deployment, plan(seed), notes)
                _judge(deployment, notes)
                tell(f"round {seed}: clean")
            await _settle_all(deployment, notes)
            _judge(deployment, notes)
            notes.counts += _ends(deployment)
            tell(f"leg of {first_seed}: every message settled")
    except Exception as error:
        command = f"python -m tests.acceptance.campaign --seed {first_seed} --rounds {seed - first_seed + 1}"
        raise CampaignFailure(
            f"round {seed} failed; play it again with: {command}\n(kept: {folder})\n{error}"
        ) from error
    shutil.rmtree(folder)
    return notes.counts


def _deployment(folder: Path, first_seed: int) -> Deployment:
    return Deployment(folder, limits(first_seed), agents=AGENTS, channels=CHANNELS, process=ForkedProcess)


async def _play_round(deployment: Deployment, it: Round, notes: Notes) -> None:
    begun = Progress()
    async with _receiving(deployment, notes, it.seed):
        faults = asyncio.create_task(Hand(deployment, notes).run(it.faults, begun))
        sockets = {agent: deployment.config.sidecar_socket(agent) for agent in AGENTS}
        senders = [Sender(agent, sockets[agent], notes, begun).run(steps) for agent, steps in it.sends.items()]
        await asyncio.gather(*senders)
        begun.end()
        await faults
        await _drained(deployment)


@asynccontextmanager
async def _receiving(deployment: Deployment, notes: Notes, seed: int, *, careful: bool = False) -> AsyncIterator[None]:
    """Receivers of every agent at work; at the end they finish what is in their hands."""
    stop = asyncio.Event()
    lanes = [
        Receiver(
            agent,
            deployment.config.sidecar_socket(agent),
            notes,
            random.Random(f"round {seed} {agent} lane {lane}"),
            careful=careful,
        )
        for agent in AGENTS
        for lane in range(_LANES.get(agent, 1))
    ]
    tasks = [asyncio.create_task(lane.run(stop)) for lane in lanes]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _drained(deployment: Deployment) -> None:
    """Everything runs, and no outbox and no acknowledgement waits for the adapter."""
    await deployment.adapter_ready()
    for agent in AGENTS:
        await deployment.sidecar_ready(agent)
        async with AgentClient(deployment.config.sidecar_socket(agent)) as client:

            async def empty(client: AgentClient = client) -> bool:
                document = await client.health()
                assert document["outbox_dead"] == 0, document
                return document["outbox_depth"] == 0 and document["deferred_acks"] == 0

            await until(empty, f"{agent} has told the adapter everything", _SETTLE_SECONDS_MAX)


async def _settle_all(deployment: Deployment, notes: Notes) -> None:
    """Receivers that always acknowledge, until nothing is queued or leased."""

    async def settled() -> bool:
        _, document = await health(deployment.config.adapter_socket)
        return not any(document["queues"].values())

    async with _receiving(deployment, notes, 0, careful=True):
        await until(settled, "every delivery is acked or dead", _SETTLE_SECONDS_MAX)


def _judge(deployment: Deployment, notes: Notes) -> None:
    found = notes.census(deployment.config.adapter_store, deployment.members)
    if found:
        raise AssertionError(f"{len(found)} violations:\n  " + "\n  ".join(found[:20]))


def _ends(deployment: Deployment) -> Counter[str]:
    census = read_store(deployment.config.adapter_store).census()
    return Counter({f"deliveries {state}": count for state, count in census.items()})
