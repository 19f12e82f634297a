"""The hand that kills: SIGKILL or a stall for adapter or sidecar, and the start after it."""

import asyncio
import signal
from collections.abc import Sequence

from tests.acceptance.campaign.agents import Progress
from tests.acceptance.campaign.notes import Notes
from tests.acceptance.campaign.plan import Fault
from tests.support.deployment import Deployment, ServerProcess


class Hand:
    """Plays the faults of one round. Nothing is waited for: what was killed while it started is killed all the same."""

    def __init__(self, deployment: Deployment, notes: Notes) -> None:
        self._deployment = deployment
        self._notes = notes
        self._mending: list[asyncio.Task[None]] = []

    async def run(self, faults: Sequence[Fault], begun: Progress) -> None:
        """Every fault at its moment; ends when all is mended."""
        for fault in faults:
            await begun.reached(fault.after_sends)
            await asyncio.sleep(fault.moment_seconds)
            self._notes.counts[f"{fault.kind} {'adapter' if fault.target == 'adapter' else 'sidecar'}"] += 1
            self._strike(fault)
        await asyncio.gather(*self._mending)

    def _strike(self, fault: Fault) -> None:
        process = self._process(fault.target)
        if process.returncode is not None:
            return  # it is down already and will be started
        if fault.kind == "kill":
            process.kill9()
        else:
            process.send_signal(signal.SIGSTOP)
        self._mending.append(asyncio.create_task(self._mend(fault, process)))

    async def _mend(self, fault: Fault, process: ServerProcess) -> None:
        await asyncio.sleep(fault.down_seconds)
        if fault.kind == "stall":
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
        elif fault.target == "adapter":
            await self._deployment.start_adapter(wait=False)
        else:
            await self._deployment.start_sidecar(fault.target, wait=False)

    def _process(self, target: str) -> ServerProcess:
        process = self._deployment.adapter if target == "adapter" else self._deployment.sidecars[target]
        assert process is not None
        return process
