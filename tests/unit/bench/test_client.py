"""The load's own HTTP client, against servers that answer badly."""

import asyncio
import contextlib

import pytest

from bench.client import Connection, request_bytes


@contextlib.asynccontextmanager
async def answering(folder, *pieces: bytes):
    """A server that answers the first request with these pieces, each in a write of its own, and then hangs up."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, folder / "s")
    connection = await Connection.open(folder / "s")
    try:
        yield connection
    finally:
        connection.close()
        server.close()
        await server.wait_closed()


async def test_an_answer_in_pieces_is_put_together(short_folder):
    """Where the kernel cuts does not matter, be it in the middle of the head."""
    answer = b"HTTP/1.1 201 Created\r\nX-Name: a b\r\nContent-Length: 5\r\n\r\nhello"
    async with answering(short_folder, *(answer[i : i + 1] for i in range(len(answer)))) as connection:
        response = await connection.request(request_bytes("GET", "/"))
    assert (response.status, response.body) == (201, b"hello")
    assert response.header("x-name") == "a b"
    assert response.header("absent") is None


async def test_an_empty_body_ends_with_the_head(short_folder):
    """`Content-Length: 0` is an answer, not something to wait for."""
    async with answering(short_folder, b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n") as connection:
        assert (await connection.request(request_bytes("GET", "/"))).body == b""


@pytest.mark.parametrize(
    "pieces", [(), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut",), (b"HTTP/1.1 200 OK\r\n\r\nno length",)]
)
async def test_an_answer_that_does_not_end_is_an_error(short_folder, pieces):
    """A connection that ends, or whose answer has no length, leaves nobody waiting."""
    async with answering(short_folder, *pieces) as connection:
        with pytest.raises(ConnectionError):
            await connection.request(request_bytes("GET", "/"))


async def test_a_request_on_a_connection_that_ended_is_an_error(short_folder):
    """The next request says so at once."""
    async with answering(short_folder) as connection:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await connection.request(request_bytes("GET", "/"))


async def test_one_request_at_a_time(short_folder):
    """Answers have no names: a second request before the first answer could take it."""
    async with answering(short_folder) as connection:
        first = connection.request(request_bytes("GET", "/"))
        with pytest.raises(RuntimeError):
            connection.request(request_bytes("GET", "/"))
        with pytest.raises(ConnectionError):
            await first


def test_a_body_is_announced_as_json():
    """Head and body are those of a plain HTTP/1.1 request."""
    wire = request_bytes("POST", "/x", b"{}", {"A": "b"})
    head = b"POST /x HTTP/1.1\r\nHost: unix\r\nA: b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    assert wire == head + b"{}"
