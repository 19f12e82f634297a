"""Rounds of measurements: each round starts fresh deployments, so that a drift of the machine touches all alike."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.deployment import Deployment
from bench.facts import machine_facts, store_facts
from bench.figures import Figures, medians
from bench.ways import AdapterWay, SidecarWay, Unexpected, Way
from bench.workloads import Measured, Stage, Workload
from shared.config import Config

WAYS: Final[dict[str, Callable[[Config], Way]]] = {AdapterWay.name: AdapterWay, SidecarWay.name: SidecarWay}

_OVERHEAD_SECONDS: Final = 180.0
"""What a run may take beyond its sending: making messages, filling, draining. Longer means that it hangs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: each workload with the number of messages a run of it moves. `folder` holds the stores."""

    workloads: Sequence[tuple[Workload, int]]
    ways: Sequence[str]
    runs: int
    seconds: float
    folder: Path


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
        self.results = [Result(workload, way, messages) for workload, messages in plan.workloads for way in plan.ways]
        self.facts: dict[str, Any] = machine_facts(plan.folder)

    async def run(self) -> None:
        """All rounds; raises `CannotRun` when a deployment does not start."""
        for number in range(1, self._plan.runs + 1):
            for way in self._plan.ways:
                for group in self._groups(way):
                    self._tell(f"run {number} of {self._plan.runs}: starting a deployment")
                    await self._run_group(group, way)

    def _groups(self, way: str) -> list[list[Result]]:
        """Results that share a deployment."""
        mine = [result for result in self.results if result.way == way]
        shared = [result for result in mine if not result.workload.own_deployment]
        alone = [[result] for result in mine if result.workload.own_deployment]
        return [shared, *alone] if shared else alone

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

    async def _measure(self, workload: Workload, stage: Stage) -> Measured:
        try:
            async with asyncio.timeout(stage.seconds + _OVERHEAD_SECONDS):
                return await workload.run(stage)
        except (Unexpected, OSError) as error:  # TimeoutError is an OSError
            return Measured({}, [f"{type(error).__name__}: {error}"])
