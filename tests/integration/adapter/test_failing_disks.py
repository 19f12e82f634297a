"""An adapter whose disk fails, in every way that a disk fails, and works again: nothing that was told is lost."""

import asyncio
import errno
import itertools
import shutil
from dataclasses import dataclass

import pytest

from tests.support.deployment import health, until
from tests.support.failing_disks import FailingDisk, Fails

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the disk between needs a C compiler: apt install gcc"
)


@dataclass(frozen=True)
class Fault:
    """What fails, how, and of which files. `refuses` says whether a send can notice."""

    operations: Fails
    error: int
    suffix: str = ""
    refuses: bool = True


WRITES = Fails.WRITE | Fails.TRUNCATE
FAULTS = {
    "the log's sync fails": Fault(Fails.SYNC, errno.EIO, ".db-wal"),
    "no space": Fault(WRITES, errno.ENOSPC),
    "no quota": Fault(WRITES, errno.EDQUOT),
    "mounted read-only": Fault(WRITES | Fails.SYNC | Fails.OPEN, errno.EROFS),
    "permission lost": Fault(WRITES | Fails.OPEN, errno.EACCES),
    "nothing works": Fault(Fails.ALL, errno.EIO),
    "half of each write": Fault(Fails.HALF, 0, refuses=False),
    "the mark": Fault(Fails.WRITE, errno.ENOSPC, ".db-mark"),
}


@pytest.fixture
async def disk(short_folder):
    return FailingDisk(short_folder / "state", short_folder / "fault")


async def until_health(link, status):
    async def asked():
        return (await health(link.config.adapter_socket))[0] == status

    await until(asked, f"health says {status}")


async def send(link, client, envelope):
    """One try; what it promised is noted."""
    answer = await client.call("POST", "/link/v1/messages", {"envelopes": [envelope]})
    if answer.status != 200:
        assert answer.document["type"] == "store-unavailable"
        assert answer.document["retryable"] is True
        return answer.status
    (outcome,) = answer.document["outcomes"]
    link.history.sent(client.agent, envelope, outcome["code"], outcome["answer"])
    return outcome["code"]


async def test_failing_disks_cost_no_message(disk, make_link):
    """While it fails, sends are refused or durable, health says so, and damage is claimed of nothing; then it heals by
    itself. So for each fault in turn; after `kill -9` everything that was told is there, once and in order."""
    link = await make_link(disk.environment)
    pm, qa = await link.client("pm"), await link.client("qa")
    inode = link.config.adapter_store.stat().st_ino
    numbers = itertools.count(1)
    for name, fault in FAULTS.items():
        assert await send(link, pm, pm.envelope("@qa", payload={"n": next(numbers)})) == 201, name
        envelopes = [pm.envelope("@qa", payload={"n": next(numbers)}) for _ in range(3)]
        with disk.failing(fault.operations, fault.error, fault.suffix):
            codes = [await send(link, pm, envelope) for envelope in envelopes]
            assert disk.hits > 0, name
            if fault.refuses:
                assert codes == [503] * 3, name
                await until_health(link, 503)
        await until_health(link, 200)
        for envelope in envelopes:
            assert await send(link, pm, envelope) in (200, 201), name
    link.kill9_adapter()
    await link.start_adapter(disk.environment)
    received = await qa.poll(count=100)
    assert [message["envelope"]["payload"]["n"] for message in received] == list(range(1, next(numbers)))
    assert link.config.adapter_store.stat().st_ino == inode
    assert "store-damaged" not in link.adapter.log()
    assert link.violations() == []


async def test_a_start_on_a_failing_disk_waits_for_it(disk, make_link):
    """It answers, is not ready and says why, until the disk works; then it serves what it had."""
    link = await make_link(disk.environment)
    pm = await link.client("pm")
    assert await send(link, pm, pm.envelope("@qa")) == 201
    link.kill9_adapter()
    with disk.failing(Fails.WRITE | Fails.SYNC | Fails.TRUNCATE, errno.EIO, "-wal"):
        await link.start_adapter(disk.environment, wait=False)
        await until_health(link, 503)
        assert "Input/output error" in (await health(link.config.adapter_socket))[1]["reason"]
    await until_health(link, 200)
    assert len(await (await link.client("qa")).poll()) == 1


async def test_a_disk_that_hangs_refuses_nothing_and_forgets_nothing(disk, make_link):
    """A send waits, readiness says meanwhile that the disk hangs, and when it moves again the send is stored."""
    link = await make_link(disk.environment)
    pm = await link.client("pm")
    envelope = pm.envelope("@qa")
    with disk.failing(Fails.SYNC, 0, ".db-wal"):
        sending = asyncio.create_task(send(link, pm, envelope))
        await until_health(link, 503)
        assert "hangs" in (await health(link.config.adapter_socket))[1]["reason"]
        assert not sending.done()
    assert await sending == 201
    await until_health(link, 200)
    assert link.violations() == []
