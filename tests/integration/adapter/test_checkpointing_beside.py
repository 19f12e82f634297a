"""A second process checkpoints the store in a loop while messages are sent (`litestream#1432`: commits were lost)."""

import asyncio
import contextlib
import subprocess
import sys

from adapter.broker import Broker
from adapter.core.commands import Sent
from adapter.store.engine import Store
from shared.clock import Clock
from tests.support.factories import membership, policy, send

SENDS = 2_000
BESIDE = """
import sys, time
from shared.database import library_checksums
from shared.database.library import LIBRARY
library_checksums()
connection = LIBRARY.connect(sys.argv[1], isolation_level=None, timeout=5)
connection.execute("SELECT count(*) FROM messages").fetchone()
print("looping", flush=True)
done = 0
while True:
    done += connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    print(done, flush=True)
    time.sleep(0.002)  # the lock is the writer's too: without a rest it might wait for longer than it does for anybody
"""


async def test_commits_survive_checkpoints_of_another_process(tmp_path):
    """Every send that was answered is there, in a store that is whole, before and after it was closed."""
    path = tmp_path / "store.db"
    store = Store(path, membership(), policy(queue_max=SENDS), Clock())
    await store.open()
    broker = Broker(store, Clock())
    with (tmp_path / "done").open("w+") as told:
        beside = subprocess.Popen([sys.executable, "-c", BESIDE, str(path)], stdout=told)  # noqa: S603, ASYNC220
        with contextlib.ExitStack() as stack:
            stack.callback(beside.wait, 30)
            stack.callback(beside.kill)
            while (tmp_path / "done").stat().st_size == 0:
                assert beside.poll() is None
                await asyncio.sleep(0.01)
            for _ in range(SENDS // 20):
                answers = await asyncio.gather(*(broker.ask(send(to="@qa")) for _ in range(20)))
                assert all(isinstance(sent, Sent) for sent in answers)
        told.seek(0)
        assert int(told.read().split()[-1]) > 10
    await broker.close()
    await store.close()
    again = Store(path, membership(), policy(queue_max=SENDS), Clock())
    await again.open()
    whole, count = await again.read(
        lambda connection, _: (
            connection.execute("PRAGMA integrity_check").fetchone()[0],
            connection.execute("SELECT count(*) FROM messages").fetchone()[0],
        )
    )
    await again.close()
    assert (whole, count) == ("ok", SENDS)
