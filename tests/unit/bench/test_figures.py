"""Percentiles and medians."""

import pytest

from bench.figures import compare, latency_figures, medians, percentile, prefixed


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


def test_a_ratio_is_of_figures_that_both_have():
    """What one of the two did not measure, and what would be divided by nothing, gives no ratio."""
    compared = {"a_x": "a_ms", "b_x": "b_ms", "c_x": "c_ms"}
    assert compare({"a_ms": 3.0, "b_ms": 1.0}, {"a_ms": 2.0, "b_ms": 0.0, "c_ms": 1.0}, compared) == {"a_x": 1.5}


def test_figures_say_of_what_they_are():
    """Latencies of several things stand side by side."""
    assert prefixed("send", {"p50_ms": 1.0}) == {"send_p50_ms": 1.0}
