"""A sidecar whose disk fails, in every way that a disk fails, and works again: nothing that was queued is lost."""

import errno
import itertools
import shutil

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, until
from tests.support.factories import new_key
from tests.support.failing_disks import FailingDisk, Fails

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the disk between needs a C compiler: apt install gcc"
)

WRITES = Fails.WRITE | Fails.TRUNCATE
FAULTS = {
    "the log's sync fails": (Fails.SYNC, errno.EIO),
    "no space": (WRITES, errno.ENOSPC),
    "no quota": (WRITES, errno.EDQUOT),
    "mounted read-only": (WRITES | Fails.SYNC | Fails.OPEN, errno.EROFS),
    "permission lost": (WRITES | Fails.OPEN, errno.EACCES),
    "nothing works": (Fails.ALL, errno.EIO),
}


async def test_failing_disks_cost_no_message(short_folder):
    """While it fails, a send that would be queued is refused with 503 and queues nothing; when it works again, it is
    queued; after `kill -9` and with an adapter, all that was queued arrives, once and in order."""
    disk = FailingDisk(short_folder / "state", short_folder / "fault")
    numbers = itertools.count(1)
    queued = []
    async with Deployment(short_folder, {"health_poll_seconds": 0.1}) as deployment:
        await deployment.start_sidecar("pm", disk.environment)
        async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
            for name, (operations, error) in FAULTS.items():
                fields = {"payload": {"n": next(numbers)}, "idempotency_key": new_key()}
                with disk.failing(operations, error, "sidecar.db-wal" if operations == Fails.SYNC else ""):
                    for _ in range(2):
                        refused = await pm.send("@qa", **fields)
                        assert (refused.status, refused.document["type"]) == (503, "store-unavailable"), name
                        assert refused.document["retryable"] is True
                    assert disk.hits > 0, name
                after = await pm.send("@qa", **fields)
                assert after.status == 202, f"{name}: {after.document}"
                queued.append(fields["payload"]["n"])
        deployment.kill9_sidecar("pm")
        await deployment.start_adapter()
        await deployment.start_sidecar("pm", disk.environment)
        await deployment.start_sidecar("qa")
        async with AgentClient(deployment.config.sidecar_socket("qa")) as qa:
            await until(lambda: _reachable(qa), "the receiver's sidecar has found the adapter")
            received = await qa.take(len(queued))
    assert [message["envelope"]["payload"]["n"] for message in received] == queued


async def _reachable(agent):
    return (await agent.health())["adapter_reachable"]
