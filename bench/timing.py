"""A timed section: how long it took, and how much of a processor each side used."""

import gc
import time
from types import TracebackType
from typing import Self

from bench.deployment import Deployment
from bench.figures import Figures


class Timed:
    """`with Timed(deployment) as timed:`; its `seconds` and `shares` count once the block is over.

    The collector of this process rests meanwhile: its pauses would be measured as latency.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.seconds = 0.0
        self.shares: Figures = {}
        """Processor time over wall time of the load, the adapter and all sidecars; 1.0 is one core."""

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._before = self._clocks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = self._clocks()
        gc.enable()
        gc.unfreeze()
        wall, load, adapter, sidecars = (after - before for after, before in zip(now, self._before, strict=True))
        self.seconds = wall
        self.shares = {"load_cpu": load / wall, "adapter_cpu": adapter / wall}
        if sidecars:
            self.shares["sidecars_cpu"] = sidecars / wall

    def _clocks(self) -> tuple[float, float, float, float]:
        return time.perf_counter(), time.process_time(), *self._deployment.cpu_seconds()
