"""`multiclaw bench` as people run it: real processes, from outside."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import PEERS, find
from bench.workloads import WORKLOADS

BESIDE_A_DRAIN_MS_MAX = 5_000
"""Ten times what a busy machine of two cores takes while seven full outboxes drain: a queue that somebody waits behind
until all is drained takes longer."""

_ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    """The bench, with its stores in `folder`."""
    command = [sys.executable, "-m", "bench", "--dir", str(folder), *arguments]
    return subprocess.Popen(  # noqa: S603 - our own program
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def children_of(pid: int) -> list[int]:
    """The processes that `pid` started and that still run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["adapter", "sidecar"])
def test_quick_form_counts_right_and_leaves_nothing(short_folder, way):
    """Every workload is measured, every send is accounted for, and no file stays behind."""
    with start(short_folder, "--quick", "--json", "--via", way) as bench:
        out, err = bench.communicate(timeout=200)
    assert bench.returncode == 0, out + err
    document = json.loads(out)
    assert document["ok"]
    assert document["environment"]["store"]["synchronous"] == 2
    medians = {result["workload"]: result["median"] for result in document["results"]}
    assert list(medians) == [workload.name for workload in WORKLOADS if way in workload.ways]
    assert all(medians[name]["messages_per_s"] > 0 for name in ("W1", "W2", "W5"))
    assert all(0 < medians[name]["p50_ms"] <= medians[name]["p99_ms"] for name in ("W1", "W2", "W3", "W4", "W5"))
    assert medians["W4"]["deliveries_per_s"] > 0
    assert medians["W6"].keys() >= {"restart_s", "adapter_rss_mb", "disk_mb"}
    assert medians["W7"].keys() >= {"p99_ms", "still_p99_ms", "messages_per_s", "still_messages_per_s", "pruned_s"}
    assert medians["W8"].keys() >= {"p99_ms", "still_p99_ms", "replayed_s"}
    if way == "adapter":
        expected = {"send_x", "take_x", "cpu_x", "send_p99_ms", "take_p99_ms", "restart_s", "adapter_rss_mb", "disk_mb"}
        assert medians["W9"].keys() >= expected
        assert medians["W11"].keys() >= {"p50_ms", "p99_ms", "still_p99_ms", "backup_s", "disk_mb"}
    if way == "sidecar":
        assert medians["W10"].keys() >= {"restart_s", "drained_s", "first_found_s", "last_found_s", "found_together"}
        assert 0 < medians["W10"]["p99_ms"] < BESIDE_A_DRAIN_MS_MAX
    assert ("sidecar_rss_mb" in medians["W6"]) == (way == "sidecar")
    assert list(short_folder.iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_bench_stops_its_processes_and_removes_its_folder(short_folder, signum):
    """Whoever ends it early finds neither an adapter nor a store."""
    with start(short_folder, "--workload", "W3", "--via", "adapter", "--messages", "3000") as bench:
        assert bench.stderr is not None
        while "W3 via adapter" not in bench.stderr.readline():
            assert bench.poll() is None
        (adapter,) = children_of(bench.pid)
        bench.send_signal(signum)
        assert bench.wait(timeout=30) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(adapter, 0)
    assert list(short_folder.iterdir()) == []


def test_a_folder_too_long_for_sockets_is_told_before_anything_is_measured(short_folder):
    """The words name the path; nothing stays."""
    deep = short_folder / ("d" * 100)
    deep.mkdir()
    with start(deep, "--quick", "--workload", "W1", "--via", "adapter") as bench:
        out, err = bench.communicate(timeout=60)
    assert bench.returncode == 69, out + err
    assert "use a shorter folder" in err
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != "hops"])  # tests/integration/bench runs those
def test_a_peer_that_is_installed_is_measured_and_leaves_nothing(short_folder, peer):
    """Its server is started, counted right, killed and started again, ended, and its files are gone."""
    found = find(peer)
    if isinstance(found, str):
        pytest.skip(found)
    short_folder.chmod(0o755)  # PostgreSQL, started by root, runs as a user of its own
    sizes = ("--quick", "--messages", "60", "--stored", "60")
    measured = ("--workload", "W1,W3,W5,W6", "--via", "adapter", "--against", peer)
    with start(short_folder, *measured, *sizes, "--json") as bench:
        out, err = bench.communicate(timeout=200)
    assert bench.returncode == 0, out + err
    document = json.loads(out)
    ways = [(result["workload"], result["via"]) for result in document["results"]]
    assert ways == [(name, way) for way in ("adapter", peer) for name in ("W1", "W3", "W5", "W6")]
    ratios = {"W1": "adapter_x", "W3": "adapter_p50_x", "W5": "adapter_x", "W6": "adapter_restart_x"}
    theirs = {result["workload"]: result["median"] for result in document["results"][4:]}
    assert all(theirs[name][ratio] > 0 for name, ratio in ratios.items())
    assert theirs["W6"]["server_mb"] > 0
    assert document["environment"]["peers"] == {peer: found.durability}
    assert list(short_folder.iterdir()) == []
    folder = f"{short_folder}/".encode()
    assert [path for path in Path("/proc").glob("[0-9]*/cmdline") if folder in content_of(path)] == []


def content_of(path: Path) -> bytes:
    """What stands in a file of a process, or nothing when that has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
