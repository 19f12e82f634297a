"""Peers: which can be measured here, and that what they lose is counted."""

import asyncio
from collections import defaultdict

import pytest

from bench import peers, runner
from bench.command import PEERS
from bench.peers.base import RECEIVERS, Peer
from bench.peers.measuring import PEER_WORKLOADS, measure
from bench.runner import Plan, Runner
from bench.workloads import WORKLOADS


class Memory(Peer):
    """A peer of this process, which loses each message that `loses` says, and raises for those that it `breaks` at."""

    name = "memory"
    durability = "none"
    hint = "it is here"

    def __init__(self, loses=lambda number: False, breaks_at=None):
        self._queues = defaultdict(list)
        self._loses, self._breaks_at, self._number = loses, breaks_at, 0

    def server(self):
        """See `Peer`."""
        return "true"

    async def start(self, folder):
        """See `Peer`."""
        self.folder = folder

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

    async def receiver(self, name, of):
        """See `Peer`."""

        async def take():
            await asyncio.sleep(0)
            taken, self._queues[name] = self._queues[name], []
            return taken

        return take


@pytest.mark.parametrize("workload", sorted(PEER_WORKLOADS))
async def test_a_peer_that_keeps_everything_is_right(workload):
    """All that was sent reached every receiver, and there is a rate and a latency."""
    measured = await measure(Memory(), workload, 128, 30.0)
    assert measured.faults == []
    assert 0 < measured.figures["p50_ms"] <= measured.figures["p99_ms"]
    assert measured.figures["deliveries_per_s" if workload == "W4" else "messages_per_s"] > 0


@pytest.mark.parametrize("workload", sorted(PEER_WORKLOADS))
async def test_what_a_peer_loses_or_raises_is_a_fault(workload, monkeypatch):
    """No figure stands for messages that went lost, and an error of a client ends its run alone."""
    monkeypatch.setattr("bench.peers.measuring._SILENCE_NS", 0)
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
