"""Rounds of measurements: each round starts fresh deployments, so that a drift of the machine touches all alike."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.client import Connection
from bench.deployment import CannotRun, Deployment
from bench.facts import store_facts
from bench.figures import Figures, medians
from bench.ways import AdapterWay, SidecarWay, Unexpected, Way
from bench.workloads import Measured, Stage, Workload
from shared.config import Config

WAYS: Final[dict[str, Callable[[Config], Way]]] = {AdapterWay.name: AdapterWay, SidecarWay.name: SidecarWay}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `messages` and `stored` override each workload's own number; `stored` is that of W6."""

    workloads: Sequence[Workload]
    ways: Sequence[str]
    runs: int
    seconds: float
    messages: int | None
    stored: int | None
    quick: bool
    folder: Path

    def messages_of(self, workload: Workload) -> int:
        """How many messages a run of `workload` moves."""
        given = self.stored if workload.own_deployment else self.messages
        return given or (workload.messages_quick if self.quick else workload.messages_default)


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
