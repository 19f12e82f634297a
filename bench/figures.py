"""Percentiles and medians. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

Figures = dict[str, float]
"""Figures of one run by name; the unit is the end of the name."""


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value with at least `share` of all at or below it."""
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


def latency_figures(seconds: Iterable[float]) -> Figures:
    """`p50_ms` and `p99_ms`; nothing when nothing was measured."""
    values = sorted(seconds)
    if not values:
        return {}
    return {"p50_ms": percentile(values, 0.50) * 1e3, "p99_ms": percentile(values, 0.99) * 1e3}


def prefixed(what: str, figures: Figures) -> Figures:
    """The same figures under names that say of what they are."""
    return {f"{what}_{name}": value for name, value in figures.items()}


def compare(run: Figures, base: Figures, compared: Mapping[str, str]) -> Figures:
    """Ratios of a run to another of the same round; `compared` names for each ratio the figure it is of."""
    return {name: run[of] / base[of] for name, of in compared.items() if base.get(of) and of in run}


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over the runs that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median(run[name] for run in runs if name in run) for name in names}
