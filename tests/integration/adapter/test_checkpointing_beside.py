"""A second process checkpoints the store in a loop while messages are sent (`litestream#1432`: commits were lost)."""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

from adapter.broker import Broker
from adapter.core.commands import Sent
from adapter.store.engine import Store
from shared.clock import Clock
from tests.support.factories import membership, policy, send

SENDS_MIN = 2_000
CHECKPOINTS_MIN = 10
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


def checkpoints(told: Path) -> int:
    """How many the other process has made."""
    complete = told.read_text().rpartition("\n")[0]
    return int(complete.split()[-1]) if complete[-1:].isdigit() else 0


async def test_commits_survive_checkpoints_of_another_process(tmp_path):
    """Every send that was answered is there, in a store that is whole, before and after it was closed."""
    path = tmp_path / "store.db"
    store = Store(path, membership(), policy(queue_max=100_000), Clock())
    await store.open()
    broker = Broker(store, Clock())
    with (tmp_path / "done").open("w") as told:
        beside = subprocess.Popen([sys.executable, "-c", BESIDE, str(path)], stdout=told)  # noqa: S603, ASYNC220
        with contextlib.ExitStack() as stack:
            stack.callback(beside.wait, 30)
            stack.callback(beside.kill)
            while (tmp_path / "done").stat().st_size == 0:
                assert beside.poll() is None
                await asyncio.sleep(0.01)
            sent = 0
            while sent < SENDS_MIN or checkpoints(tmp_path / "done") <= CHECKPOINTS_MIN:
                answers = await asyncio.gather(*(broker.ask(send(to="@qa")) for _ in range(20)))
                assert all(isinstance(answer, Sent) for answer in answers)
                sent += len(answers)
    await broker.close()
    await store.close()
    again = Store(path, membership(), policy(queue_max=100_000), Clock())
    await again.open()
    whole, count = await again.read(
        lambda connection, _: (
            connection.execute("PRAGMA integrity_check").fetchone()[0],
            connection.execute("SELECT count(*) FROM messages").fetchone()[0],
        )
    )
    await again.close()
    assert (whole, count) == ("ok", sent)
