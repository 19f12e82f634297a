"""Days of a team at work, in virtual time: agents send, take, fail and come again; from the seed come the faults.

Adapter and sidecars are killed and stopped at any moment and stay away for seconds or hours; disks fail for a while;
somebody sets the clock, at times by forty days until it is noticed. Now and then the orchestrator replays what died. At
the end all is mended, every delivery is settled, and the census says whether anything was lost, doubled, changed or out
of order.
"""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.acceptance.campaign.agents import Pace, Progress, Receiver, Sender
from tests.acceptance.campaign.notes import Notes
from tests.acceptance.campaign.plan import AGENTS, CHANNELS, Step, message
from tests.simulation.host import Host, simulated
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment

HOUR = 3_600.0
DAY = 24 * HOUR

_LIMITS = {"health_poll_seconds": 300, "poll_wait_seconds_max": 60, "queue_max": 40, "attempts_max": 2}
"""Probes every five minutes, since days pass; queues that an absence of hours fills."""

_PACE = {"call": 120.0, "patience": 12 * HOUR, "retry": 60.0, "poll": 60.0, "rest": 600.0, "late": 1.0}

_FAULTS = {"kill": 4, "kill at answer": 6, "stop": 2, "kill twice": 2, "disk": 3, "clock": 1}
_FAULT_EVERY_SECONDS = HOUR / 2
_MOMENT_SECONDS_MAX = 0.05
"""Within the time a send takes."""

_DOWN_SECONDS = (1.0, 5.0, 60.0, HOUR)
_STEPS_SECONDS = (-HOUR, HOUR, -60.0, 60.0, 40 * DAY, -40 * DAY)
_WRONG_DATE_SECONDS_MAX = 12 * HOUR
"""A date that is wrong by weeks is put right within a day; one that nobody minds for a day is believed."""

_SICK_SECONDS_MAX = 120.0
"""A store opens again every second while its disk fails, which is most of what a soak would do otherwise."""

_SETTLE_SECONDS_MAX = 12 * HOUR


class SoakFailure(AssertionError):  # noqa: N818 - a finding, not an error of the simulation
    """What the census found, with the command that plays it again."""


async def soak(seed: int, days: float, sends_per_day: float) -> Counter[str]:
    """Play `days` days of `sends_per_day` sends; what happened, counted. Raises `SoakFailure`."""
    folder = Path(tempfile.mkdtemp(prefix="mc-sim-", dir="/dev/shm"))
    try:
        counts = await _play(folder, seed, days, sends_per_day)
    except Exception as error:
        command = f"python -m tests.simulation --seed {seed} --days {days:g} --sends-per-day {sends_per_day:g}"
        raise SoakFailure(f"play it again with: {command}\n(kept: {folder})\n{error!r}") from error
    shutil.rmtree(folder)
    return counts


async def _play(folder: Path, seed: int, days: float, sends_per_day: float) -> Counter[str]:
    deployment = Deployment(folder, _LIMITS, agents=AGENTS, channels=CHANNELS)
    host = Host(deployment, f"soak {seed}")
    with simulated(host):
        week = _Week(host, Notes(), seed)
        await week.start()
        await week.work(days * DAY, sends_per_day)
        await week.settle()
        await week.end()
        return week.judge()


class _Week:
    """One deployment, its agents, and what befalls them."""

    def __init__(self, host: Host, notes: Notes, seed: int) -> None:
        self._host = host
        self._notes = notes
        self._seed = seed
        self._names = ("adapter", *AGENTS)
        self._pace = Pace(**_PACE, now=host.wall_seconds)
        self._begun = Progress()
        self._mending: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Everything runs."""
        for name in self._names:
            self._host.start(name)
        for name in self._names:
            await self._host.ready(name)

    async def work(self, seconds: float, sends_per_day: float) -> None:
        """Traffic and faults, for so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        async with self._receiving(f"soak {self._seed}"):
            faults = asyncio.create_task(self._faults(until))
            replays = asyncio.create_task(self._replays(until))
            think = DAY * len(AGENTS) / sends_per_day
            senders = (self._sender(agent).run(self._steps(agent, until, think)) for agent in AGENTS)
            await asyncio.gather(*senders)
            self._begun.end()
            await faults
            await replays
            await self._mended()

    async def settle(self) -> None:
        """Receivers that always acknowledge, until nothing is queued or leased, here or there."""
        async with self._receiving("settle", careful=True), asyncio.timeout(_SETTLE_SECONDS_MAX):
            for agent in AGENTS:
                async with AgentClient(self._socket(agent)) as client:
                    await _until(partial(_has_told_all, client))
            async with AgentClient(self._host.deployment.config.adapter_socket) as adapter:
                await _until(partial(_is_idle, adapter))

    async def end(self) -> None:
        """Everything stops, in peace."""
        for name in reversed(self._names):
            await self._host.stop(name)

    def judge(self) -> Counter[str]:
        """The counts, or an `AssertionError` with what is wrong."""
        deployment = self._host.deployment
        found = self._notes.census(deployment.config.adapter_store, deployment.members)
        assert not found, f"{len(found)} violations:\n  " + "\n  ".join(found[:20])
        return self._notes.counts

    # Traffic

    def _socket(self, agent: str) -> Path:
        return self._host.deployment.config.sidecar_socket(agent)

    def _sender(self, agent: str) -> Sender:
        return Sender(agent, self._socket(agent), self._notes, self._begun, self._pace)

    def _steps(self, agent: str, until: float, think_seconds: float) -> Iterator[Step]:
        """Until the time is up: one message, sometimes a burst, sometimes the same again."""
        rng = random.Random(f"soak {self._seed} {agent}")
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            count = rng.randint(2, 12) if rng.random() < 0.1 else 1
            messages = tuple(message(rng, agent) for _ in range(count))
            yield Step(rng.expovariate(1 / think_seconds), messages, 2 if rng.random() < 0.05 else 1)

    @asynccontextmanager
    async def _receiving(self, name: str, *, careful: bool = False) -> AsyncIterator[None]:
        stop = asyncio.Event()
        lanes = []
        for agent in AGENTS:
            rng = random.Random(f"{name} {agent}")
            receiver = Receiver(agent, self._socket(agent), self._notes, rng, careful=careful, pace=self._pace)
            lanes.append(asyncio.create_task(receiver.run(stop)))
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*lanes)

    async def _replays(self, until: float) -> None:
        """The orchestrator replays what failed too often, a few times a day."""
        rng, loop = random.Random(f"soak {self._seed} replays"), asyncio.get_running_loop()
        async with AgentClient(self._socket("orchestrator"), seconds_max=self._pace.call) as client:
            while loop.time() < until:
                await asyncio.sleep(rng.expovariate(1 / (6 * HOUR)))
                await self._replay(client)

    async def _replay(self, client: AgentClient) -> None:
        try:
            listed = await client.call("GET", "/v1/dead-letters?reason=max-attempts&limit=50")
        except (OSError, TimeoutError):
            return
        letters = listed.document.get("dead_letters", ()) if listed.status == 200 else ()
        for letter in letters:
            place = {name: letter[name] for name in ("recipient", "channel", "channel_sequence_id")}
            shown = await client.call("GET", "/v1/dead-letters/" + "/".join(map(str, place.values())))
            if shown.status != 200:
                return
            envelope = shown.document["envelope"]
            self._notes.history.replayed.add((place["recipient"], envelope["sender"], envelope["idempotency_key"]))
            done = await client.call("POST", "/v1/dead-letters/replay", {"items": [place]})
            self._notes.counts["replays"] += done.status == 200 and done.document["replayed"]

    # Faults

    async def _faults(self, until: float) -> None:
        rng, loop = random.Random(f"soak {self._seed} faults"), asyncio.get_running_loop()
        while True:
            await asyncio.sleep(rng.expovariate(1 / _FAULT_EVERY_SECONDS))
            await self._begun.next()  # in the thick of it
            await asyncio.sleep(rng.uniform(0, _MOMENT_SECONDS_MAX))
            if loop.time() >= until:
                return
            (kind,) = rng.choices(list(_FAULTS), list(_FAULTS.values()))
            target = "adapter" if rng.random() < 0.5 else rng.choice(list(AGENTS))
            self._notes.counts[f"{kind}: {'adapter' if target == 'adapter' else 'sidecar'}"] += 1
            await self._strike(kind, target, rng)

    async def _strike(self, kind: str, target: str, rng: random.Random) -> None:
        down = rng.expovariate(1 / rng.choice(_DOWN_SECONDS))
        process = self._host.processes[target]
        if kind == "clock":
            step = rng.choice(_STEPS_SECONDS)
            self._host.offset_seconds += step
            if abs(step) > DAY:
                self._later(self._set_right(step, min(down, _WRONG_DATE_SECONDS_MAX)))
        elif kind == "disk":
            process.disk.failing = rng.choice((0.2, 1.0))
            self._later(self._heal(target, min(down, _SICK_SECONDS_MAX)))
        elif kind == "stop" and process.running:
            await self._host.stop(target)
            self._later(self._restart(target, down))
        elif kind == "kill at answer":
            self._begun.at_answer(target, partial(self._kill, target, down))
        elif kind != "stop":
            self._kill(target, down, again=kind == "kill twice")

    def _kill(self, target: str, down_seconds: float, *, again: bool = False) -> None:
        if self._host.processes[target].running:
            self._host.kill(target)
            self._later(self._restart(target, down_seconds, again=again))

    async def _set_right(self, step_seconds: float, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        self._host.offset_seconds -= step_seconds

    async def _heal(self, target: str, down_seconds: float) -> None:
        await asyncio.sleep(down_seconds)
        self._host.processes[target].disk.failing = 0.0

    async def _restart(self, target: str, down_seconds: float, *, again: bool = False) -> None:
        await self._host.ended(target)
        await asyncio.sleep(down_seconds)
        self._host.start(target)
        if again:
            await asyncio.sleep(down_seconds % 0.5)  # in the middle of its recovery
            if self._host.processes[target].running:
                self._host.kill(target)
            await self._host.ended(target)
            self._host.start(target)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._mending.add(task)
        task.add_done_callback(self._mending.discard)

    async def _mended(self) -> None:
        await asyncio.gather(*self._mending)
        for name in self._names:
            self._host.start(name)
            self._host.processes[name].disk.failing = 0.0
            await self._host.ready(name)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - another process's state, and a look costs no real time
        await asyncio.sleep(30)


async def _is_idle(adapter: AgentClient) -> bool:
    return not any((await adapter.health())["queues"].values())


async def _has_told_all(client: AgentClient) -> bool:
    document: dict[str, Any] = await client.health()
    assert document["outbox_dead"] == 0, document
    return document["outbox_depth"] == 0 and document["deferred_acks"] == 0
