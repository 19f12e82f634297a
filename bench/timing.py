"""A timed section: how long it took, and how much of a processor each side used."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from bench.deployment import Deployment
from bench.figures import Figures


@contextmanager
def quiet_collector() -> Iterator[None]:
    """The collector of this process rests meanwhile: its pauses would be measured as latency."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class Timed:
    """`with Timed(deployment) as timed:`; its `seconds` and `processors` count once the block is over.

    The collector rests meanwhile.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.seconds = 0.0
        self._used: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._quiet = quiet_collector()
        self._quiet.__enter__()
        self._before = self._clocks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = self._clocks()
        self._quiet.__exit__(kind, error, trace)
        wall, load, adapter, sidecars = (after - before for after, before in zip(now, self._before, strict=True))
        self.seconds = wall
        self._used = {"load": load, "adapter": adapter}
        if self._deployment.has_sidecars:
            self._used["sidecars"] = sidecars

    def processors(self, messages: int) -> Figures:
        """Processor time of each side: `*_cpu` over wall time, 1.0 being one core, and `*_cpu_us` per message.

        The second depends less on what else the machine does.
        """
        shares = {f"{side}_cpu": used / self.seconds for side, used in self._used.items()}
        return shares | {f"{side}_cpu_us": used / max(1, messages) * 1e6 for side, used in self._used.items()}

    def _clocks(self) -> tuple[float, float, float, float]:
        return time.perf_counter(), time.process_time(), *self._deployment.cpu_seconds()
