"""Clients that are gone, or might as well be: what they were handed comes back, and nothing of them stays behind.

A server that goes on serving a poll whose client is dead gives messages to nobody (redis#949).
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.integration.adapter.conftest import Link
from tests.support.deployment import health, until
from tests.support.invariant import read_store
from tests.support.store_hand import reading

POLL = "/link/v1/poll"
LEASE_SECONDS = 0.5

CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(bytes.fromhex(sys.argv[2]))
print("sent", flush=True)
s.recv(1)
"""
"""Asks, says so, and takes the first byte of its answer."""


def process_of(link: Link, request: bytes) -> subprocess.Popen[bytes]:
    """A client in its own process, which has sent its request."""
    arguments = [sys.executable, "-c", CLIENT, str(link.config.adapter_socket), request.hex()]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE)  # noqa: S603 - our own program
    assert process.stdout is not None
    assert process.stdout.readline() == b"sent\n"
    return process


def close(link: Link, request: bytes) -> Callable[[], object]:
    return link.connect(request).close


def half_close(link: Link, request: bytes) -> Callable[[], object]:
    ghost = link.connect(request)
    ghost.shutdown(socket.SHUT_WR)
    return ghost.close


def kill(link: Link, request: bytes) -> Callable[[], object]:
    process = process_of(link, request)
    process.kill()
    process.communicate()
    return lambda: None


def read_a_little(link: Link, request: bytes) -> Callable[[], object]:
    ghost = link.connect(request)
    ghost.recv(10)
    return ghost.close


def descriptors(link: Link) -> int:
    """How many files and sockets the adapter has open."""
    assert link.adapter is not None
    return len(os.listdir(f"/proc/{link.adapter.pid}/fd"))  # noqa: PTH208 - a count is wanted, of what changes


def spent(link: Link) -> int:
    """Failed attempts of all deliveries."""

    with reading(link.config.adapter_store) as connection:
        return int(connection.execute("SELECT coalesce(sum(failures), 0) FROM deliveries").fetchone()[0])


@pytest.mark.parametrize(("ghost", "rounds"), [(close, 100), (half_close, 100), (kill, 5), (read_a_little, 100)])
async def test_ghosts_leave_no_descriptor_behind(link, ghost, rounds):
    """A hundred of each kind, and the adapter has as many files open as before."""
    pm, qa = await link.client("pm"), await link.client("qa")
    await pm.send("@pm")
    await qa.poll()
    base = descriptors(link)
    wait = 0 if ghost is read_a_little else 60
    ends = [ghost(link, qa.request_bytes("POST", POLL, {"wait": wait})) for _ in range(rounds)]
    for end in ends:
        end()
    assert (await health(link.config.adapter_socket))[0] == 200  # a connection after theirs: all of theirs were taken
    await until(lambda: descriptors(link) <= base, "the adapter has closed what the ghosts had opened")
    assert (await pm.send("@qa"))["code"] == 201
    (message,) = await qa.poll(wait=5)
    assert message["attempt"] <= 2
    assert spent(link) == 0


@pytest.mark.parametrize("ending", ["read 10 bytes", "never read"])
async def test_what_was_written_to_a_ghost_comes_back_when_its_lease_ends(start, ending):
    """The answer went out, and nobody can know that it was not read: one attempt is spent, the next has it whole."""
    link = await start(lease_seconds=LEASE_SECONDS, retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    ghost = link.connect(qa.request_bytes("POST", POLL, {"wait": 60}))
    await pm.send("@qa", payload={"text": "whole"})
    if ending == "read 10 bytes":
        assert await asyncio.to_thread(ghost.recv, 10) == b"HTTP/1.1 2"
    await until(lambda: read_store(link.config.adapter_store).census()["leased"] == 1, "the ghost was handed it")
    ghost.close()
    (message,) = await qa.poll(wait=20)
    assert (message["attempt"], message["envelope"]["payload"]) == (2, {"text": "whole"})
    assert spent(link) <= 1


async def test_a_stopped_client_holds_its_message_for_a_lease_and_no_longer(start):
    """SIGSTOP in the middle of a long-poll: its message goes to whoever asks when the lease is over, with an honest
    count, and the stopped one is not waited for."""
    link = await start(lease_seconds=LEASE_SECONDS, retry_base_seconds=0.01)
    pm, qa = await link.client("pm"), await link.client("qa")
    stopped = process_of(link, qa.request_bytes("POST", POLL, {"wait": 60}))
    stopped.send_signal(signal.SIGSTOP)
    try:
        await pm.send("@qa", payload={"text": "whole"})
        (message,) = await qa.poll(wait=20)
        assert (message["attempt"], message["redelivered"]) == (2, True)
        assert message["envelope"]["payload"] == {"text": "whole"}
        assert (await qa.ack(message["delivery_id"])).status == 200
        assert read_store(link.config.adapter_store).census() == {"acked": 1}
        assert spent(link) == 1
    finally:
        stopped.kill()
        stopped.communicate()
