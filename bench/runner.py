"""Rounds of measurements: each round starts fresh deployments, so that a drift of the machine touches all alike."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.deployment import Deployment
from bench.facts import machine_facts, store_facts
from bench.figures import Figures, compare, medians, prefixed
from bench.peers import Peer, find
from bench.peers.measuring import PEER_WORKLOADS, measure, running
from bench.ways import WAYS, AdapterWay, Unexpected
from bench.workloads import Measured, Stage, Workload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: each workload with the number of messages a run of it moves. `folder` holds the stores."""

    workloads: Sequence[tuple[Workload, int]]
    ways: Sequence[str]
    runs: int
    seconds: float
    folder: Path
    peers: Sequence[str] = ()


@dataclass(slots=True)
class Result:
    """All runs of one workload one way."""

    workload: Workload
    way: str
    messages: int
    runs: list[Figures] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def median(self) -> Figures:
        """The median of each figure."""
        return medians(self.runs)


class Runner:
    """Carries out a plan. `tell` is called with a line for people before each step."""

    def __init__(self, plan: Plan, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._tell = tell
        self.results = [
            Result(workload, way, messages)
            for workload, largest in plan.workloads
            for way in plan.ways
            if way in workload.ways
            for messages in workload.sizes(largest)
        ]
        self.peer_results = [
            Result(workload, peer, messages)
            for workload, messages in plan.workloads
            for peer in plan.peers
            if workload.name in PEER_WORKLOADS
        ]
        self.facts: dict[str, Any] = machine_facts(plan.folder)

    async def run(self) -> None:
        """All rounds; raises `CannotRun` when a deployment does not start."""
        for number in range(1, self._plan.runs + 1):
            for way in self._plan.ways:
                for group in self._groups(way):
                    self._tell(f"run {number} of {self._plan.runs}: starting a deployment")
                    await self._run_group(group, way)
            for peer in self._plan.peers:
                await self._run_peer(peer, number)
        self.results += self.peer_results
        for workload, way in dict.fromkeys((each.workload, each.way) for each in self.results if each.workload.kept):
            await self._run_kept([each for each in self.results if (each.workload, each.way) == (workload, way)])

    def _groups(self, way: str) -> list[list[Result]]:
        """Results that share a deployment."""
        return _sharing([result for result in self.results if result.way == way and not result.workload.kept])

    async def _run_group(self, group: Sequence[Result], way: str) -> None:
        async with Deployment(self._plan.folder, sidecars=way != AdapterWay.name) as deployment:
            for result in group:
                self._tell(f"{result.workload.name} via {way}")
                stage = Stage(deployment, WAYS[way](deployment.config), result.messages, self._plan.seconds)
                measured = await self._measure(result.workload, stage)
                result.runs.append(measured.figures)
                result.faults += measured.faults
                if measured.faults:
                    break  # what this one left behind would be counted against the next
            await deployment.stop()
            self.facts["store"] = await store_facts(deployment.config.adapter_store)

    async def _run_peer(self, name: str, number: int) -> None:
        """What a peer does of the same, after ours in each round; one that is not here is told of once."""
        results = [result for result in self.peer_results if result.way == name]
        if not results or any(result.faults for result in results):
            return
        peer = find(name)
        self.facts.setdefault("peers", {})[name] = peer if isinstance(peer, str) else peer.durability
        if isinstance(peer, str):
            self._tell(f"{name}: {peer}")
            self.peer_results = [result for result in self.peer_results if result.way != name]
            return
        for group in _sharing(results):
            self._tell(f"run {number} of {self._plan.runs}: starting {name}")
            async with running(peer, self._plan.folder):
                for result in group:
                    await self._run_on(peer, result)

    async def _run_on(self, peer: Peer, result: Result) -> None:
        self._tell(f"{result.workload.name} on {peer.name}")
        work = measure(peer, result.workload.name, result.messages, self._plan.seconds)
        measured = await self._guarded(self._within(result.workload, result.messages, work))
        result.runs.append(measured.figures | self._ratios(result, measured.figures))
        result.faults += measured.faults

    def _ratios(self, result: Result, figures: Figures) -> Figures:
        """Ours in this round by a peer's, for each way."""
        workload, found = result.workload, Figures()
        for each in self.results:
            if each.workload is workload and each.runs:
                found |= prefixed(each.way, compare(each.runs[-1], figures, workload.against))
        return found

    async def _run_kept(self, results: Sequence[Result]) -> None:
        """Each result on a deployment of its own, made ready once; then round by round, in turn."""
        async with contextlib.AsyncExitStack() as stack:
            stages = []
            for result in results:
                self._tell(f"{result.workload.name} via {result.way}: a store of {result.messages:,} messages")
                deployment = await stack.enter_async_context(
                    Deployment(self._plan.folder, sidecars=result.way != AdapterWay.name)
                )
                stage = Stage(deployment, WAYS[result.way](deployment.config), result.messages, self._plan.seconds)
                stages.append(stage)
                await self._within(result.workload, stage.messages, result.workload.ready(stage, self._tell))
            for number in range(1, self._plan.runs + 1):
                self._tell(f"run {number} of {self._plan.runs}: {results[0].workload.name} via {results[0].way}")
                measured = [
                    await self._measure(each.workload, stage) for each, stage in zip(results, stages, strict=True)
                ]
                for result, found in zip(results, measured, strict=True):
                    ratios = compare(found.figures, measured[0].figures, result.workload.compared)
                    result.runs.append(found.figures | ratios)
                    result.faults += found.faults
                if any(result.faults for result in results):
                    break
            await stages[0].deployment.stop()
            self.facts["store"] = await store_facts(stages[0].deployment.config.adapter_store)

    async def _measure(self, workload: Workload, stage: Stage) -> Measured:
        return await self._guarded(self._within(workload, stage.messages, workload.run(stage)))

    async def _guarded(self, work: Awaitable[Measured]) -> Measured:
        try:
            return await work
        except (Unexpected, OSError) as error:  # TimeoutError is an OSError
            return Measured({}, [f"{type(error).__name__}: {error}"])

    async def _within(self, workload: Workload, messages: int, work: Awaitable[T]) -> T:
        """What it gives, in a time that no working deployment needs; raises `TimeoutError`."""
        async with asyncio.timeout(self._plan.seconds + workload.patience_seconds(messages)):
            return await work


def _sharing(results: Sequence[Result]) -> list[list[Result]]:
    """Results that share a deployment, or a running peer; some need their own."""
    shared = [result for result in results if not result.workload.own_deployment]
    alone = [[result] for result in results if result.workload.own_deployment]
    return [shared, *alone] if shared else alone
