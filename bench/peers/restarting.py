"""W6 on a peer: its server is killed with messages stored, and started again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from bench.deployment import SENDERS, SINK
from bench.figures import Figures
from bench.peers.base import Peer
from bench.peers.moving import Count, drain, fill, key_of, make_bodies
from bench.workloads import Measured

T = TypeVar("T")

_PROBE: Final = "probe"
_RETRY_SECONDS: Final = 0.005
_ATTEMPT_SECONDS: Final = 10.0
"""A server that is starting may take a request and never answer it."""

_PATIENCE_SECONDS: Final = 120.0


async def restart(peer: Peer, messages: int) -> Measured:
    """Nothing stored may be lost: the backlog is consumed and counted at the end."""
    count = Count()
    await fill(peer, messages, count)
    figures: Figures = {"server_mb": peer.memory_mb(), "disk_mb": _allocated_bytes(peer.folder) / 1e6}
    await peer.process.kill()
    await peer.disconnect()
    start = time.perf_counter()
    await peer.restart()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await _bring_one_through(peer)
    figures["restart_s"] = time.perf_counter() - start
    await drain(await peer.receiver(SINK, "direct"), SINK, count)
    return Measured(figures, count.faults([SINK]))


async def _bring_one_through(peer: Peer) -> None:
    """Return when a fresh message was sent and has reached its receiver, which has no part in the backlog."""
    ((key, body),) = make_bodies(SENDERS[0], 1)

    async def send() -> None:
        await (await peer.sender(SENDERS[0], _PROBE))(body)

    async def receive() -> None:
        take = await peer.receiver(_PROBE, _PROBE, 1)
        while all(key_of(taken) != key for taken in (await take()).bodies):
            pass

    await _insist(peer, send)
    await _insist(peer, receive)


async def _insist(peer: Peer, work: Callable[[], Awaitable[T]]) -> T:
    """What it gives when it first succeeds, over a connection of its own each time."""
    while True:
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                return await work()
        except Exception:  # four clients have no common error
            await peer.disconnect()
            await asyncio.sleep(_RETRY_SECONDS)


def _allocated_bytes(folder: Path) -> int:
    """All files in it, in allocated bytes."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())  # stat(2): units of 512
