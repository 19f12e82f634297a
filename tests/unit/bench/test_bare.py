"""The floor of the bench in pieces: which sends leave together, who is woken, and how its table is opened."""

import asyncio

import orjson
import pytest

from bench.bare.door import open_door
from bench.bare.hop import Hop
from bench.bare.lines import Lines, Together
from bench.bare.log import connect
from bench.bare.store import Store
from bench.ways import Unexpected
from shared.database import BUSY_STORE


class Asked:
    """Stands for `Lines`: each request waits for an answer from `answers`, where an exception is raised."""

    def __init__(self):
        self.bodies = []
        self.answers = asyncio.Queue()

    async def ask(self, target, body):
        """See `Lines`."""
        self.bodies.append(body)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer


async def test_sends_that_wait_leave_together():
    """Those of one turn, and those that come while a request is under way, in their order."""
    lines = Asked()
    together = Together(lines, "/send/direct")
    first = [together.send(b"1"), together.send(b"2")]
    await asyncio.sleep(0)
    later = [together.send(b"3"), together.send(b"4")]
    lines.answers.put_nowait(None)
    await asyncio.gather(*first)
    assert not any(stored.done() for stored in later)
    lines.answers.put_nowait(None)
    await asyncio.gather(*later)
    assert lines.bodies == [b"[1,2]", b"[3,4]"]


async def test_all_of_a_request_that_fails_are_told_and_the_next_is_made():
    """Nobody waits for ever, nor does one who has given up spoil it for the others."""
    lines = Asked()
    together = Together(lines, "/send/direct")
    gone, one, other = (together.send(b"1") for _ in range(3))
    gone.cancel()
    lines.answers.put_nowait(ConnectionError("it ended"))
    assert all(isinstance(end, ConnectionError) for end in await asyncio.gather(one, other, return_exceptions=True))
    lines.answers.put_nowait(None)
    await together.send(b"2")
    assert lines.bodies == [b"[1,1,1]", b"[2]"]


async def test_a_connection_that_has_ended_is_not_used_again(short_folder):
    """A request after the server hung up goes over a new one, and is answered."""
    hung_up = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    async with await asyncio.start_unix_server(serve, short_folder / "s"):
        lines = Lines(short_folder / "s")
        for _ in range(2):
            assert (await lines.ask("/send/direct")).body == b"{}"
            await hung_up.wait()
            hung_up.clear()
            await asyncio.sleep(0)  # the end reaches us in the turn after
        lines.close()


async def test_closing_ends_what_is_under_way(short_folder):
    """Who waits for an answer is told at once."""
    asked = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(serve, short_folder / "s"):
        lines = Lines(short_folder / "s")
        waiting = asyncio.create_task(lines.ask("/take/sink/direct/0/1/30"))
        await asked.wait()
        lines.close()
        done, _ = await asyncio.wait({waiting}, timeout=20)
        waiting.cancel()
        assert done == {waiting}
        assert isinstance(waiting.exception(), ConnectionError)


class Behind:
    """Stands for `Log`: at each read that finds nothing, `meanwhile` happens before its answer is heard."""

    def __init__(self):
        self.rows, self.meanwhile = [], None

    async def append(self, to, bodies):
        """See `Log`."""
        self.rows += [(len(self.rows) + number, body) for number, body in enumerate(bodies, 1)]

    async def read(self, receiver, of, after, most):
        """See `Log`."""
        found = [row for row in self.rows if row[0] > after]
        if not found and self.meanwhile is not None:
            await self.meanwhile()
        return found


@pytest.mark.parametrize("moment", ["during the look", "during the wait"])
async def test_no_wake_up_is_lost(moment):
    """A send that the look of a take has just missed ends its wait as one does that comes later."""
    log = Behind()
    store = Store(log)
    looked = asyncio.Event()

    async def meanwhile():
        looked.set()
        if moment == "during the look":
            await store.send("direct", b"[1]")

    log.meanwhile = meanwhile
    async with asyncio.timeout(20):
        taking = asyncio.create_task(store.take("sink", "direct", 0, 100, 600.0))
        await looked.wait()
        if moment == "during the wait":
            await asyncio.sleep(0)
            await store.send("direct", b"[1]")
        assert orjson.loads(await taking) == {"last": 1, "messages": [1]}


async def test_a_take_that_finds_nothing_keeps_its_place():
    """When its wait is over it is answered, with the id that it came with."""
    assert orjson.loads(await Store(Behind()).take("sink", "direct", 7, 100, 0.01)) == {"last": 7, "messages": []}


async def test_a_hop_says_that_the_store_is_away_and_finds_it_again(short_folder):
    """Each request is answered, also with nobody behind the hop, and what comes later is passed on."""
    store, hop = short_folder / "store", short_folder / "hop"
    behind, before = Lines(store), Lines(hop)
    async with open_door(hop, Hop(behind)):
        for _ in range(2):
            for target, body in (("/send/direct", b"1"), ("/take/sink/direct/0/1/0", b"")):
                with pytest.raises(Unexpected, match="503"):
                    await before.ask(target, body)
            log = Behind()
            async with open_door(store, Store(log)):
                await asyncio.gather(*(before.ask("/send/direct", body) for body in (b"1", b"2")))
                assert sorted(body for _, body in log.rows) == [b"1", b"2"]
                taken = await before.ask("/take/sink/direct/1/1/0")
                assert orjson.loads(taken.body)["last"] == 2
        before.close()
    behind.close()


def test_the_table_is_synced_as_ours_is(tmp_path):
    """Each commit before it is answered; into a log that is written ahead, also when it is opened again."""
    for _ in range(2):
        connection = connect(tmp_path / "t")
        settings = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode", "page_size")
        ]
        length = (tmp_path / "t-wal").stat().st_size
        connection.close()
        assert settings == [2, "wal", 8192]
        assert length >= BUSY_STORE.wal_bytes
