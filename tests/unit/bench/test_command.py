"""The verb: options in, exit status out."""

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from bench import command
from bench.runner import Runner
from bench.workloads import WORKLOADS


@pytest.fixture
def run(monkeypatch):
    """Run the verb with a runner that measures nothing but what the test says."""

    def run(*arguments: str, faults: tuple[str, ...] = ()):
        async def measure(self: Runner) -> None:
            for result in self.results:
                result.runs = [{"messages_per_s": 2.0}, {"messages_per_s": 8.0}, {"messages_per_s": 4.0}]
                result.faults = list(faults)

        monkeypatch.setattr(Runner, "run", measure)
        application = typer.Typer()
        command.register(application)
        return CliRunner().invoke(application, arguments)

    return run


def test_json_has_the_medians_and_the_environment(run):
    """What tools read: `ok`, where it ran, and per workload and way the runs with their medians."""
    done = run("--json", "--workload", "W2,W1", "--via", "sidecar")
    document = json.loads(done.stdout)
    assert done.exit_code == 0
    assert document["ok"]
    assert document["environment"].keys() >= {"python", "sqlite", "cpu_count", "kernel", "filesystem"}
    found = [(result["workload"], result["via"], result["median"]) for result in document["results"]]
    assert found == [(name, "sidecar", {"messages_per_s": 4.0}) for name in ("W1", "W2")]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_wrong_count_ends_with_1_and_says_what_is_wrong(run, arguments):
    """Fast and wrong is a failure, in both forms of output."""
    done = run(*arguments, faults=("sink never got k1",))
    assert done.exit_code == 1
    assert "sink never got k1" in done.stdout


def test_an_unknown_workload_or_way_is_wrong_use(run):
    """The words name what there is."""
    for arguments in (("--workload", "W99"), ("--via", "telegraph")):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "choose of" in done.output


def test_numbers_of_messages_reach_their_workloads(run):
    """`--messages` is for W1 to W5, `--stored` for W6 to W11; what is left out is the workload's own number."""
    document = json.loads(run("--json", "--via", "adapter", "--messages", "7", "--stored", "9").stdout)
    assert [result["messages"] for result in document["results"]] == [7] * 5 + [9] * 5
    document = json.loads(run("--json", "--via", "adapter", "--quick").stdout)
    quick = [size for one in WORKLOADS if "adapter" in one.ways for size in one.sizes(one.messages_quick)]
    assert [result["messages"] for result in document["results"]] == quick


def test_a_way_that_no_chosen_workload_has_is_wrong_use(run):
    """The words name the ways that there are, instead of a table of nothing."""
    done = run("--workload", "W9", "--via", "sidecar")
    assert done.exit_code == 2
    assert "via adapter" in done.output


def test_results_have_a_row_each_in_the_table(run):
    """People see every workload both ways, with its figure whole."""
    lines = run().stdout.splitlines()
    rows = [line.split() for line in lines if re.match(r"W\d+ ", line)]
    expected = [[one.name, way] for one in WORKLOADS for way in one.ways for _ in one.sizes(one.messages_default)]
    assert [row[:2] for row in rows] == expected
    assert all(row[3] == "4" and row[-1] == "right" for row in rows)
