"""Peers: which can be measured here, and that what they lose is counted."""

import asyncio
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from bench import peers, runner
from bench.command import PEERS
from bench.peers.base import RECEIVERS, Peer, Server, Taken
from bench.peers.measuring import PEER_WORKLOADS, measure
from bench.report import print_table
from bench.runner import Plan, Runner
from bench.workloads import WORKLOADS

BY_NAME = {workload.name: workload for workload in WORKLOADS}


def runs(pid):
    """Whether a process is there, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Memory(Peer):
    """A peer of this process, which loses each message that `loses` says, and raises for those that it `breaks` at.

    A restart of it `forgets` what was stored, or not. An ack takes `ack_seconds`.
    """

    name = "memory"
    durability = "none"
    hint = "it is here"

    def __init__(self, loses=lambda number: False, breaks_at=None, forgets=False, ack_seconds=0.0):
        super().__init__()
        self._forgets, self._ack_seconds = forgets, ack_seconds
        self._queues = defaultdict(list)
        self._loses, self._breaks_at, self._number = loses, breaks_at, 0

    def server(self):
        """See `Peer`."""
        return "true"

    async def start(self, folder):
        """See `Peer`."""
        self.folder = folder

    async def restart(self):
        """See `Peer`."""
        if self._forgets:
            self._queues.clear()

    async def disconnect(self):
        """See `Peer`."""

    async def stop(self):
        """See `Peer`."""
        self._queues.clear()

    async def sender(self, name, to):
        """See `Peer`."""

        async def send(body):
            self._number += 1
            if self._number == self._breaks_at:
                raise LookupError("the client gave up")
            if not self._loses(self._number):
                for receiver in RECEIVERS[to]:
                    self._queues[receiver].append(body)

        return send

    async def receiver(self, name, of, most=100):
        """See `Peer`."""

        async def take():
            await asyncio.sleep(0)
            taken, self._queues[name] = self._queues[name][:most], self._queues[name][most:]
            received_ns = time.perf_counter_ns()
            if taken:
                await asyncio.sleep(self._ack_seconds)
            return Taken(taken, received_ns)

        return take


@pytest.mark.parametrize("workload", sorted(PEER_WORKLOADS))
async def test_a_peer_that_keeps_everything_is_right(workload):
    """All that was sent reached every receiver, and there are the figures that ours are compared with."""
    measured = await measure(Memory(), workload, 128, 30.0)
    assert measured.faults == []
    assert measured.figures.keys() >= set(BY_NAME[workload].against.values())
    if workload == "W6":
        assert measured.figures["restart_s"] > 0
    else:
        assert 0 < measured.figures["p50_ms"] <= measured.figures["p99_ms"]


async def test_a_latency_ends_before_the_ack():
    """As ours does: W3 is from the send to the receipt; W5 is for a batch, ack and all."""
    slow = {workload: await measure(Memory(ack_seconds=0.02), workload, 4, 30.0) for workload in ("W3", "W5")}
    assert slow["W3"].figures["p50_ms"] < 20 < slow["W5"].figures["p50_ms"]


async def test_w3_sends_at_the_beat():
    """A hundred a second, as to ours, and not as fast as it goes."""
    start = time.perf_counter()
    measured = await measure(Memory(), "W3", 11, 30.0)
    assert measured.faults == []
    assert time.perf_counter() - start >= 0.1


async def test_what_a_restart_forgets_is_a_fault(monkeypatch):
    """No time of a restart stands for a server that came back without its backlog."""
    monkeypatch.setattr("bench.peers.moving._SILENCE_NS", 0)
    (fault,) = (await measure(Memory(forgets=True), "W6", 64, 30.0)).faults
    assert fault == "sink got 0 of 64 messages, 64 never"


async def test_a_server_is_killed_with_all_that_it_started(tmp_path):
    """Its memory is that of all of them, and none of them runs after the kill."""
    server, program = Server(), "import time; held = bytearray(30_000_000); time.sleep(600)"
    command = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {program!r}], start_new_session=True); "
    try:
        await server.start([sys.executable, "-c", command + program], tmp_path)
        async with asyncio.timeout(30):
            while True:
                if server.memory_mb() > 60:
                    break
                await asyncio.sleep(0.01)
        found = server.pids()
        assert len(found) == 2
        await server.kill()
        assert [pid for pid in found if runs(pid)] == []
        assert server.pids() == []
    finally:
        await server.stop()


@pytest.mark.parametrize("workload", sorted(PEER_WORKLOADS))
async def test_what_a_peer_loses_or_raises_is_a_fault(workload, monkeypatch):
    """No figure stands for messages that went lost, and an error of a client ends its run alone."""
    monkeypatch.setattr("bench.peers.moving._SILENCE_NS", 0)
    (fault, *_) = (await measure(Memory(loses=lambda number: number == 3), workload, 128, 30.0)).faults
    assert "1 never" in fault
    broken = await measure(Memory(breaks_at=3), workload, 128, 30.0)
    assert (broken.figures, len(broken.faults)) == ({}, 1)


def test_a_peer_that_is_not_installed_is_skipped_with_a_word(monkeypatch):
    """Without its client or its server there is no figure, and the words say what is missing."""
    monkeypatch.setattr(peers.shutil, "which", lambda _: None)
    for name in PEERS:
        said = peers.find(name)
        assert isinstance(said, str)
        assert said.startswith("skipped: ")
        assert "install" in said


async def test_each_round_measures_ours_and_then_the_peer(monkeypatch, tmp_path):
    """In turn, so that a drift of the machine touches both; the ratio is of one round, and the settings are told."""
    heard, rates = [], iter([100.0, 300.0])

    async def ours(self, group, way):
        (result,) = group
        result.runs.append({"messages_per_s": next(rates)})
        heard.append("ours")

    async def theirs(peer, *_):
        heard.append(peer.name)
        return runner.Measured({"messages_per_s": 50.0}, [])

    monkeypatch.setattr(Runner, "_run_group", ours)
    monkeypatch.setattr(runner, "measure", theirs)
    monkeypatch.setattr(runner, "find", lambda name: Memory() if name == "redis" else "skipped: there is none")
    plan = Plan([(WORKLOADS[0], 6)], ["adapter"], 2, 1.0, tmp_path, ["nats", "redis"])
    measuring = Runner(plan, lambda _: None)
    await measuring.run()
    assert heard == ["ours", "memory"] * 2
    assert [(result.way, len(result.runs)) for result in measuring.results] == [("adapter", 2), ("redis", 2)]
    assert measuring.results[1].median["adapter_x"] == 4.0
    assert measuring.facts["peers"] == {"nats": "skipped: there is none", "redis": "none"}
    assert list(tmp_path.iterdir()) == []


async def test_ratios_are_of_the_same_figure_and_say_which_is_better(monkeypatch, tmp_path, capsys):
    """Ours by theirs: of rates more is better; of times and disk, marked in the table and explained under it, less."""
    ours = {"p50_ms": 3.0, "p99_ms": 8.0, "restart_s": 1.0, "disk_mb": 30.0, "messages_per_s": 6.0}
    theirs = {"p50_ms": 2.0, "p99_ms": 10.0, "restart_s": 4.0, "disk_mb": 20.0, "messages_per_s": 3.0}

    async def run_group(self, group, way):
        for result in group:
            result.runs.append(ours)

    async def run_peer(*_):
        return runner.Measured(theirs, [])

    monkeypatch.setattr(Runner, "_run_group", run_group)
    monkeypatch.setattr(runner, "measure", run_peer)
    monkeypatch.setattr(runner, "find", lambda name: Memory())
    plan = Plan([(BY_NAME[name], 6) for name in ("W3", "W5", "W6")], ["adapter"], 1, 1.0, tmp_path, ["redis"])
    measuring = Runner(plan, lambda _: None)
    await measuring.run()
    found = [{name: value for name, value in one.median.items() if name not in theirs} for one in measuring.results[3:]]
    assert found == [
        {"adapter_p50_x": 1.5, "adapter_p99_x": 0.8},
        {"adapter_x": 2.0},
        {"adapter_restart_x": 0.25, "adapter_disk_x": 1.5},
    ]
    print_table(measuring.results, measuring.facts)
    head, *_ = printed = capsys.readouterr().out.splitlines()
    assert all(f"ours {what} x↓" in head for what in ("p50", "p99", "restart", "disk"))
    assert any("↓" in line and "less is better" in line for line in printed[1:])


async def test_a_restart_is_measured_on_a_server_of_its_own(monkeypatch, tmp_path):
    """What other workloads left in its store would count as its disk and its memory."""
    stores = []

    async def measured(peer, workload, *_):
        stores.append((workload, peer.folder))
        return runner.Measured({}, [])

    monkeypatch.setattr(runner, "measure", measured)
    monkeypatch.setattr(runner, "find", lambda name: Memory())
    plan = Plan([(BY_NAME[name], 6) for name in ("W1", "W5", "W6")], [], 1, 1.0, tmp_path, ["redis"])
    await Runner(plan, lambda _: None).run()
    assert [workload for workload, _ in stores] == ["W1", "W5", "W6"]
    assert stores[0][1] == stores[1][1] != stores[2][1]
