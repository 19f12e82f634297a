"""The floor through a process for each agent, which passes on what it reads, as sidecars do (`bench/bare`)."""

import asyncio
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from bench.deployment import SENDERS
from bench.peers.bare import Bare, knock
from bench.peers.base import RECEIVERS, Send, Server

_AGENTS: Final = {*SENDERS, *chain.from_iterable(RECEIVERS.values())}


class Hops(Bare):
    """As agents speak to sidecars: a request for each send, on as many connections as it has under way."""

    name = "hops"
    durability = f"{Bare.durability}; memory is that of the store and of {len(_AGENTS)} hops"

    def __init__(self) -> None:
        super().__init__()
        self._hops: list[Server] = []

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        await super().start(folder)
        self._hops = [Server() for _ in _AGENTS]
        async with asyncio.TaskGroup() as group:
            for name, hop in zip(_AGENTS, self._hops, strict=True):
                group.create_task(self._start_hop(hop, name))

    async def stop(self) -> None:
        """See `Peer`."""
        await asyncio.gather(*(hop.stop() for hop in self._hops))
        await super().stop()

    def memory_mb(self) -> float:
        """See `Peer`."""
        return super().memory_mb() + sum(hop.memory_mb() for hop in self._hops)

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        return partial(self._lines_of(name).ask, f"/send/{to}")

    async def _start_hop(self, hop: Server, name: str) -> None:
        await self._run(hop, "bench.bare.hop", self._door(name), self._store)
        await hop.until_ready(lambda: knock(self._door(name)), self.folder)

    def _door(self, name: str) -> Path:
        """See `Bare`."""
        return self.folder / f"{name}.sock"


PEER = Hops()
