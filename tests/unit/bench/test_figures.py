"""Percentiles and medians."""

import pytest

from bench.figures import latency_figures, medians, percentile


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)])
def test_percentile_is_the_nearest_rank(share, expected):
    """The result is a value that was measured: the smallest with at least that share at or below it."""
    assert percentile(range(1, 101), share) == expected


def test_latencies_are_sorted_first_and_told_in_milliseconds():
    """Order of arrival does not matter."""
    assert latency_figures([0.003, 0.001, 0.002]) == {"p50_ms": 2.0, "p99_ms": 3.0}


def test_nothing_measured_gives_no_figure():
    """A figure that was not measured is absent, never zero."""
    assert latency_figures([]) == {}


def test_medians_are_over_the_runs_that_have_the_figure():
    """A run that failed halfway takes no part in what it has not measured."""
    assert medians([{"a": 1.0, "b": 5.0}, {"a": 9.0}, {"a": 2.0}]) == {"a": 2.0, "b": 5.0}
