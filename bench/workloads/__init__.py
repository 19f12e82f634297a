"""The workloads W1 to W11. Each starts with empty queues, and ends by counting what came out."""

from typing import Final

from bench.workloads.backing_up import BackingUp
from bench.workloads.backlog import Backlog
from bench.workloads.base import Measured, Stage, Workload
from bench.workloads.broadcast import Broadcast
from bench.workloads.capacity import Capacity
from bench.workloads.draining import Draining
from bench.workloads.latency import PacedLatency
from bench.workloads.pruning import Pruning
from bench.workloads.replaying import Replaying
from bench.workloads.restart import Restart
from bench.workloads.throughput import InFlight64, OneInFlightEach

WORKLOADS: Final[tuple[Workload, ...]] = (
    OneInFlightEach(),
    InFlight64(),
    PacedLatency(),
    Broadcast(),
    Backlog(),
    Restart(),
    Pruning(),
    Replaying(),
    Capacity(),
    Draining(),
    BackingUp(),
)

__all__ = ["WORKLOADS", "Measured", "Stage", "Workload"]
