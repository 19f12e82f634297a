"""The floor of the bench as processes: counted as any peer is, killed, and ended."""

import asyncio
import contextlib
import itertools
import sqlite3
from pathlib import Path

import orjson
import pytest

from bench.bare.lines import Lines
from bench.peers import find
from bench.peers.measuring import PEER_WORKLOADS, measure, running


def processes_with(folder):
    """Those that name `folder` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:  # it has just ended
            continue
        if f"{folder}/".encode() in command:
            found.append(command)
    return found


@pytest.mark.parametrize(("name", "processes"), [("bare", 1), ("hops", 9)])
async def test_every_workload_counts_right_and_nothing_is_left(short_folder, name, processes):
    """One after the other on the same store, the last through a kill; the end of it ends each of its processes."""
    peer = find(name)
    async with running(peer, short_folder):
        assert len(processes_with(short_folder)) == processes
        for workload in sorted(PEER_WORKLOADS):
            measured = await measure(peer, workload, 60, 30.0)
            assert measured.faults == [], workload
        assert measured.figures["server_mb"] > 0
        assert (peer.memory_mb() > peer.process.memory_mb()) == (processes > 1)
    assert processes_with(short_folder) == []
    assert list(short_folder.iterdir()) == []


async def test_what_was_answered_is_in_the_table_after_a_kill(short_folder):
    """A kill in the middle of sends loses none that was answered."""
    peer, answered, numbers = find("bare"), set(), itertools.count()
    under_way = asyncio.Event()
    async with running(peer, short_folder):

        async def send_on(name):
            send = await peer.sender(name, "direct")
            for number in numbers:
                await send(b"%d" % number)
                answered.add(number)
                if len(answered) == 100:
                    under_way.set()

        sending = [asyncio.create_task(send_on(name)) for name in ("s1", "s2", "s3")]
        await under_way.wait()
        await peer.process.kill()
        ends = await asyncio.gather(*sending, return_exceptions=True)
        assert all(isinstance(end, OSError) for end in ends)
        with contextlib.closing(sqlite3.connect(peer.folder / "store.db")) as table:
            stored = {int(body) for (body,) in table.execute("SELECT body FROM messages")}
    assert answered <= stored


async def test_a_place_outlives_a_kill(short_folder):
    """Who has forgotten where it was gets again what it had not said to be processed, and nothing before that."""
    peer = find("bare")
    async with running(peer, short_folder):
        send, take = await peer.sender("s1", "direct"), await peer.receiver("sink", "direct", 2)
        for number in range(5):
            await send(b"%d" % number)
        assert [(await take()).bodies for _ in range(2)] == [[b"0", b"1"], [b"2", b"3"]]
        await peer.process.kill()
        await peer.restart()
        socket = peer.folder / "store.sock"
        await peer.process.until_ready(lambda: Lines(socket).ask("/take/nobody/direct/0/1/0"), peer.folder)
        again = await Lines(socket).ask("/take/sink/direct/0/100/0")
        assert orjson.loads(again.body)["messages"] == [2, 3, 4]
