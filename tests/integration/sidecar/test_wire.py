"""The HTTP client of the link, against a peer that says whatever a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sidecar.wire import BrokenError, NotConnectedError, RawAnswer, Wire

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: value\r\n\r\nhi"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def _peer(path: Path, talk: Talk) -> AsyncIterator[tuple[Wire, list[asyncio.StreamWriter]]]:
    """A server whose connections follow `talk`, and a wire to it."""
    connections: list[asyncio.StreamWriter] = []
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        serving.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path)
    wire = Wire(path)
    try:
        yield wire, connections
    finally:
        await wire.close()
        server.close()
        async with asyncio.timeout(10):  # a connection that the wire left open fails the test
            await server.wait_closed()
            await asyncio.gather(*filter(None, serving))


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def _get(wire: Wire, give_up: "asyncio.Future[None] | None" = None) -> RawAnswer:
    return await asyncio.wait_for(wire.exchange("POST", "/x?a=%40", {"Name": "value"}, b"body", give_up), 10)


async def test_a_connection_is_used_again(short_folder: Path) -> None:
    """Requests that follow each other share a connection, and say what they should."""
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append(await _request(reader))
            writer.write(_OK)

    async with _peer(short_folder / "s", talk) as (wire, connections):
        for _ in range(3):
            assert await _get(wire) == RawAnswer(200, {"content-length": "2", "x-name": "value"}, b"hi")
        assert len(connections) == 1
    assert heard[0] == b"POST /x?a=%40 HTTP/1.1\r\nHost: adapter\r\nName: value\r\nContent-Length: 4\r\n\r\nbody"


async def test_an_answer_may_come_in_pieces(short_folder: Path) -> None:
    """However the bytes are cut."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        for byte in _OK:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()

    async with _peer(short_folder / "s", talk) as (wire, _):
        assert (await _get(wire)).body == b"hi"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nhi",
        b"SSH-2.0 200 x\r\nContent-Length: 2\r\n\r\nhi",
        _OK + b"more",
        b"x" * 20_000,
    ],
)
async def test_what_is_no_answer_is_broken(short_folder: Path, said: bytes) -> None:
    """An end too early, another protocol, or too many bytes: the outcome is unknown, and the connection is dropped."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(said)

    async with _peer(short_folder / "s", talk) as (wire, connections):
        for _ in range(2):
            with pytest.raises(BrokenError):
                await _get(wire)
        assert len(connections) == 2


async def test_without_a_listener_nothing_was_sent(short_folder: Path) -> None:
    """No file, or a stale one: certainly not received."""
    path = short_folder / "s"
    with pytest.raises(NotConnectedError):
        await _get(Wire(path))
    async with _peer(path, lambda _, __: asyncio.sleep(0)):
        pass
    with pytest.raises(NotConnectedError):
        await _get(Wire(path))


async def test_a_request_given_up_ends_for_the_peer(short_folder: Path) -> None:
    """The peer sees the end of our half; if it had not answered, there is no answer."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await _request(reader)
        assert await reader.read() == b""
        ended.set()

    async with _peer(short_folder / "s", talk) as (wire, _):
        give_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(give_up.set_result, None)
        with pytest.raises(BrokenError):
            await _get(wire, give_up)
        assert ended.is_set()


async def test_an_answer_that_crossed_the_giving_up_is_not_lost(short_folder: Path) -> None:
    """The peer had written before it saw our end: its answer is returned, so that a hand-over can be released."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        await reader.read()
        writer.write(_OK)

    async with _peer(short_folder / "s", talk) as (wire, connections):
        give_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        give_up.set_result(None)
        assert (await _get(wire, give_up)).body == b"hi"
        await wire.exchange("POST", "/", {}, b"", give_up)
        assert len(connections) == 2


async def test_cancelling_closes_the_connection(short_folder: Path) -> None:
    """A request that was cancelled leaves no connection behind with a stranger's answer on it."""
    asked = asyncio.Event()
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        if asked.is_set():
            writer.write(_OK)
        else:
            asked.set()
            ended.set_result(await reader.read())

    async with _peer(short_folder / "s", talk) as (wire, connections):
        request = asyncio.ensure_future(_get(wire))
        await asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert await asyncio.wait_for(ended, 10) == b""
        assert (await _get(wire)).body == b"hi"
        assert len(connections) == 2
