"""A whole deployment in a temporary folder: real processes, an agent for every name, and the means to break it."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from multiclaw.cli.initialise import make
from multiclaw.cli.template import AGENTS_DEFAULT, topology_text
from multiclaw.client import Agent, Message, Receipt
from multiclaw.demo.ledger import Ledger
from multiclaw.supervisor import Supervisor, health_of
from shared.config import Config, load
from shared.names import ADAPTER

Reaction = Callable[["Stage", str, Message], Awaitable[None]]

SETTLE_SECONDS: Final = 120.0
"""How long the last messages may take to arrive: four leases."""

_NAMESPACE: Final = uuid.UUID("6f1c2f3e-3f0a-5c55-9a0e-0d5c1a3b7e11")
_RESEND_BATCH: Final = 20
_PROBE_SECONDS: Final = 0.02


class Stage:
    """Adapter, sidecars and agents of one demo."""

    def __init__(self, config: Config, supervisor: Supervisor, agents: dict[str, Agent]) -> None:
        self.config = config
        self.ledger = Ledger()
        self._supervisor = supervisor
        self._agents = agents

    def members(self, to: str) -> tuple[str, ...]:
        """The agents that a message to `to` reaches."""
        return (to[1:],) if to.startswith("@") else tuple(self.config.channels[to].members)

    async def send(
        self, agent: str, to: str, kind: str, payload: Any, *, because: str | None = None, **fields: Any
    ) -> Receipt:
        """Send as `agent` and write it down.

        `because` names what the send follows from, such as the message that is being processed: the same cause gives
        the same idempotency key, so a reaction that runs again does not act again.
        """
        cause = because or str(uuid.uuid4())
        key = str(uuid.uuid5(_NAMESPACE, f"{cause} {agent} {to} {kind}"))
        message = {"to": to, "type": kind, "payload": payload, "idempotency_key": key, **fields}
        receipt = await self._agents[agent].send(to, kind, payload, idempotency_key=key, **fields)
        await self.ledger.record_send(agent, message, self.members(to), receipt)
        return receipt

    async def outage(self, during: Callable[[], Awaitable[None]]) -> float:
        """Kill the adapter with SIGKILL, keep it down for `during`, start it; seconds from start to ready."""
        with self._supervisor.held(ADAPTER):
            self._supervisor.kill(ADAPTER)
            while (await health_of(self.config.adapter_socket)).ready:  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(_PROBE_SECONDS)
            await during()
            started = time.monotonic()
        await self._supervisor.ready(ADAPTER)
        return time.monotonic() - started

    async def outboxes(self) -> dict[str, int]:
        """How many sends wait in each agent's outbox."""
        healths = await asyncio.gather(*(agent.health() for agent in self._agents.values()))
        return {name: health["outbox_depth"] for name, health in zip(self._agents, healths, strict=True)}

    async def quiet(self) -> None:
        """Wait until everything is processed, told to the adapter, and no outbox holds anything."""
        async with asyncio.timeout(SETTLE_SECONDS):
            await self.ledger.settled()
            while not await self._is_quiet():  # noqa: ASYNC110 - as above
                await asyncio.sleep(_PROBE_SECONDS)

    async def _is_quiet(self) -> bool:
        adapter = await health_of(self.config.adapter_socket)
        healths = await asyncio.gather(*(agent.health() for agent in self._agents.values()))
        waiting = sum(h["outbox_depth"] + h["deferred_acks"] for h in healths)
        return adapter.ready and waiting + sum(adapter.body["queues"].values()) == 0

    async def receipts(self) -> list[Receipt]:
        """What the adapter says today of every send of the ledger: the same key again asks, and changes nothing."""
        by_agent: dict[str, list[Mapping[str, Any]]] = {}
        for entry in self.ledger.sent:
            by_agent.setdefault(entry.agent, []).append(entry.message)
        answers = {name: iter(await self._ask(name, messages)) for name, messages in by_agent.items()}
        return [next(answers[entry.agent]) for entry in self.ledger.sent]

    async def _ask(self, agent: str, messages: list[Mapping[str, Any]]) -> list[Receipt]:
        receipts: list[Receipt] = []
        for start in range(0, len(messages), _RESEND_BATCH):
            receipts += await self._agents[agent].send_many(messages[start : start + _RESEND_BATCH])
        return receipts


@contextlib.asynccontextmanager
async def stage(folder: Path, react: Reaction, log: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Make a deployment in `folder`, start it, and have every agent process what it gets with `react`."""
    config_path = folder / "multiclaw.toml"
    made = len(list(make(config_path, topology_text(AGENTS_DEFAULT))))
    log(f"made a deployment with {made} files and folders in {folder}")
    config = load(config_path)
    async with contextlib.AsyncExitStack() as stack:
        supervisor = await stack.enter_async_context(
            Supervisor(config_path, config, log_folder=config.paths.state / "log")
        )
        await supervisor.all_ready()
        log(f"started {len(supervisor.views)} processes: {', '.join(f'{v.name} {v.pid}' for v in supervisor.views)}")
        agents = {name: await stack.enter_async_context(Agent(name, config=config_path)) for name in config.agents}
        scene = Stage(config, supervisor, agents)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_play(scene, name, agent, react)) for name, agent in agents.items()]
            try:
                yield scene
            finally:
                for task in tasks:
                    task.cancel()


async def _play(scene: Stage, name: str, agent: Agent, react: Reaction) -> None:
    @agent.on("*")
    async def process(message: Message) -> dict[str, int]:
        await react(scene, name, message)
        await scene.ledger.record_applied(name, message)
        return {"processed": message.sequence}

    await agent.run(concurrency=4, max=50)
