"""On a SQLite with the WAL-reset fault: the store works over one connection, which no other can checkpoint beside."""

import asyncio
from pathlib import Path

import pytest

from adapter.broker import Broker
from adapter.core.commands import Sent
from adapter.store.engine import Store
from adapter.store.reads import read_range
from shared.clock import Clock
from shared.database import verdict
from tests.support.factories import membership, policy, send


def descriptors_of(path):
    """How often this process has the file open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return sum(link.readlink() == path for link in links)


async def look(store):
    """Everything that was sent to qa, through the store's reader."""
    return await store.read(lambda connection, names: read_range(connection, names, "@qa", 1, 100))


@pytest.mark.parametrize(("version", "connections"), [("3.40.1", 1), ("3.53.4", 2)])
async def test_an_unsafe_library_gets_one_connection(tmp_path, version, connections):
    """Sends and reads that overlap are all answered right, over one open file where the library is unsafe, and the
    store closes and opens again.
    """
    path = tmp_path / "store.db"
    for run in (1, 2):
        store = Store(path, membership(), policy(), Clock(), library=verdict(version))
        broker = Broker(store, Clock())
        await store.open()
        assert descriptors_of(path) == connections + 1  # the scan of the pages reads the file by itself
        await broker.ask(send(to="@qa"))
        work = (work for _ in range(39) for work in (broker.ask(send(to="@qa")), look(store)))
        assert all(isinstance(sent, Sent) for sent in (await asyncio.gather(*work))[::2])
        assert len((await look(store)).envelopes) == 40 * run
        await broker.close()
        await store.close()
        assert descriptors_of(path) == 0
