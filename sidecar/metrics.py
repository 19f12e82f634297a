"""`/metrics` in Prometheus' text format, built from plain numbers when it is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sidecar.counters import Counters

_PREFIX = "multiclaw_sidecar_"


def render(
    agent: str,
    counters: Counters,
    gauges: Mapping[str, tuple[str, float]],
    by_state: Mapping[str, tuple[str, Mapping[str, float]]],
    conditions: Mapping[str, bool],
) -> bytes:
    """All counters, `gauges` as name → (help, value), and counters `by_state` as name → (help, state → value), and
    which `conditions` last, each labelled with the agent."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(agent, counters, gauges, by_state, conditions))
    return generate_latest(registry)


class _Snapshot:
    def __init__(
        self,
        agent: str,
        counters: Counters,
        gauges: Mapping[str, tuple[str, float]],
        by_state: Mapping[str, tuple[str, Mapping[str, float]]],
        conditions: Mapping[str, bool],
    ) -> None:
        self._agent = agent
        self._counters = counters
        self._gauges = gauges
        self._by_state = by_state
        self._conditions = conditions

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        for spec in fields(self._counters):
            counter = CounterMetricFamily(_PREFIX + spec.name, spec.metadata["help"], labels=["agent"])
            counter.add_metric([self._agent], getattr(self._counters, spec.name))
            yield counter
        for name, (text, value) in self._gauges.items():
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=["agent"])
            gauge.add_metric([self._agent], value)
            yield gauge
        for name, (text, values) in self._by_state.items():
            counter = CounterMetricFamily(_PREFIX + name, text, labels=["agent", "state"])
            for state, value in values.items():
                counter.add_metric([self._agent, state], value)
            yield counter
        lasting = GaugeMetricFamily(_PREFIX + "condition", "Whether a condition lasts.", labels=["agent", "condition"])
        for name, lasts in self._conditions.items():
            lasting.add_metric([self._agent, name], lasts)
        yield lasting
