"""The hand that kills: SIGKILL or a stall for adapter or sidecar, and the start after it."""

import asyncio
import signal
from collections.abc import Sequence
from functools import partial

from tests.acceptance.campaign.agents import Progress
from tests.acceptance.campaign.notes import Notes
from tests.acceptance.campaign.plan import Fault
from tests.support.deployment import Deployment, ServerProcess, health, until


class Hand:
    """Plays the faults of one round. What was killed while it started is killed all the same."""

    def __init__(self, deployment: Deployment, notes: Notes) -> None:
        self._deployment = deployment
        self._notes = notes
        self._mending: list[asyncio.Task[None]] = []

    async def run(self, faults: Sequence[Fault], begun: Progress) -> None:
        """Every fault at its moment; ends when the senders have ended and all is mended."""
        for fault in faults:
            await begun.reached(fault.after_sends)
            await asyncio.sleep(fault.moment_seconds)
            if fault.kind == "kill at answer":
                begun.at_answer(fault.target, partial(self._strike, fault))
            else:
                self._strike(fault)
        await begun.ended()
        await asyncio.gather(*self._mending)

    def _strike(self, fault: Fault) -> None:
        process = self._process(fault.target)
        if process.returncode is not None:
            return  # it is down already and will be started
        if fault.kind == "stall":
            process.send_signal(signal.SIGSTOP)
        else:
            process.kill9()
        self._count(fault)
        self._mending.append(asyncio.create_task(self._mend(fault, process)))

    async def _mend(self, fault: Fault, process: ServerProcess) -> None:
        await asyncio.sleep(fault.down_seconds)
        if fault.kind == "stall":
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
            return
        started = await self._start(fault.target)
        if fault.kind == "kill again":
            await until(partial(self._ready_or_gone, fault.target, started), f"{fault.target} is ready again")
            await asyncio.sleep(fault.moment_seconds)
            if started.returncode is None:
                started.kill9()
                self._count(fault)
                await self._start(fault.target)

    async def _start(self, target: str) -> ServerProcess:
        if target == "adapter":
            return await self._deployment.start_adapter(wait=False)
        return await self._deployment.start_sidecar(target, wait=False)

    async def _ready_or_gone(self, target: str, process: ServerProcess) -> bool:
        """Another fault may kill it before it is ready; that one starts it then."""
        config = self._deployment.config
        path = config.adapter_socket if target == "adapter" else config.sidecar_socket(target)
        return process.returncode is not None or (await health(path))[0] == 200

    def _count(self, fault: Fault) -> None:
        self._notes.counts[f"{fault.kind}: {'adapter' if fault.target == 'adapter' else 'sidecar'}"] += 1

    def _process(self, target: str) -> ServerProcess:
        process = self._deployment.adapter if target == "adapter" else self._deployment.sidecars[target]
        assert process is not None
        return process
