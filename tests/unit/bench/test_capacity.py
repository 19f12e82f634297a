"""W9: which stores are measured, and in which order."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import runner
from bench.runner import Plan, Runner
from bench.workloads import Measured
from bench.workloads.capacity import Capacity


@pytest.mark.parametrize(
    ("messages", "sizes"),
    [
        (10_000_000, [10_000, 100_000, 1_000_000, 10_000_000]),
        (2_500_000, [25_000, 250_000, 2_500_000]),
        (10_000, [1_000, 10_000]),
        (1_000, [100, 1_000]),
        (200, [200]),
    ],
)
def test_each_store_is_ten_times_the_one_before(messages, sizes):
    """Down to ten thousand, and one step at least, so that there is something to compare with."""
    assert Capacity().sizes(messages) == sizes


async def test_stores_are_filled_once_and_measured_in_turn(monkeypatch):
    """A drift of the machine touches all sizes alike, and a ratio is of figures of the same round."""
    heard, costs = [], iter([1.0, 2.0, 4.0, 12.0])

    async def stop():
        heard.append("stop")

    @contextlib.asynccontextmanager
    async def deployment(*_, **__):
        yield SimpleNamespace(config=SimpleNamespace(adapter_store=None), stop=stop)

    class Measuring(Capacity):
        async def ready(self, stage, tell):
            heard.append(f"ready {stage.messages}")

        async def run(self, stage):
            heard.append(stage.messages)
            return Measured({"send_p50_ms": next(costs)}, [])

    async def facts(_):
        return {}

    monkeypatch.setattr(runner, "Deployment", deployment)
    monkeypatch.setattr(runner, "store_facts", facts)
    monkeypatch.setitem(runner.WAYS, "adapter", lambda config: config)
    measuring = Runner(Plan([(Measuring(), 1_000)], ["adapter", "sidecar"], 2, 1.0, Path("/tmp")), heard.append)  # noqa: S108
    await measuring.run()
    assert [each for each in heard if isinstance(each, int)] == [100, 1_000, 100, 1_000]
    assert [each for each in heard if str(each).startswith("ready")] == ["ready 100", "ready 1000"]
    assert [result.median["send_x"] for result in measuring.results] == [1.0, 2.5]
