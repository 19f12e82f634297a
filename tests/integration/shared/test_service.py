"""The HTTP edge over a real socket: every failure is a problem, and a client that goes is noticed."""

import asyncio
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.shared.surface import (
    BODY_BYTES_MAX,
    DEADLINE_SECONDS,
    VAST_BYTES,
    Reply,
    Surface,
    exchange,
    request,
)

JSON = {"Content_Type": "application/json"}


async def ask(door: Path, raw: bytes) -> Reply:
    """The one answer to one request."""
    replies = await exchange(door, raw)
    assert len(replies) == 1
    return replies[0]


async def problem(door: Path, raw: bytes) -> dict[str, object]:
    """The problem document that answers a request."""
    reply = await ask(door, raw)
    assert reply.is_problem
    document: dict[str, object] = json.loads(reply.body)
    assert document["status"] == reply.status
    return document


async def test_a_good_request_is_answered_and_sealed(surface: Surface, door: Path) -> None:
    """A guarded call reaches its handler, and its answer passes the seal."""
    reply = await ask(door, request("POST", "/echo", b'{"a":1}', **JSON))
    assert (reply.status, reply.body) == (200, b'{"a":1}')
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["sealed-for"] == "pm"
    assert surface.bodies == [b'{"a":1}']


async def test_refusals_of_guarded_calls_are_sealed_too(door: Path) -> None:
    """A problem that a handler raises is sealed, one that the guard raises is not."""
    assert (await ask(door, request("GET", "/refuse"))).headers["sealed-for"] == "pm"
    assert "sealed-for" not in (await ask(door, request("GET", "/refuse", Authorization="Bearer bad"))).headers


async def test_the_guard_stands_before_the_handler(surface: Surface, door: Path) -> None:
    """What the guard refuses never runs."""
    document = await problem(door, request("POST", "/echo", b"{}", Authorization="Bearer bad", **JSON))
    assert document["type"] == "unauthenticated"
    assert surface.bodies == []


async def test_a_401_says_what_is_asked_for(door: Path) -> None:
    """A refused caller learns the scheme (RFC 9110, section 15.5.2); others are not challenged."""
    refused = await ask(door, request("POST", "/echo", b"{}", Authorization="Bearer bad", **JSON))
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in (await ask(door, request("GET", "/refuse"))).headers


async def test_unknown_paths_are_problems(door: Path) -> None:
    """An unknown path is a 404 problem, and so is a known one with something added."""
    for target in ("/nope", "/echo/", "//echo", "/items/", "/items/a/b", "/"):
        assert (await problem(door, request("GET", target)))["type"] == "not-found"


async def test_unknown_methods_name_the_allowed(door: Path) -> None:
    """A 405 names the allowed methods in its document and in `Allow`, as RFC 9110 asks."""
    reply = await ask(door, request("PUT", "/echo"))
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert json.loads(reply.body)["allowed"] == "POST"


async def test_bodies_over_the_limit_are_refused(surface: Surface, door: Path) -> None:
    """413 for a stated length (before the body is read), for chunks, and for what decompresses beyond the limit."""
    over = BODY_BYTES_MAX + 1
    stated = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n"
    chunked = request("POST", "/echo", Transfer_Encoding="chunked", **JSON).replace(b"Content-Length: 0\r\n", b"")
    chunked += b"".join(b"%x\r\n%s\r\n" % (8192, b" " * 8192) for _ in range(9)) + b"0\r\n\r\n"
    endless = chunked.replace(b"/echo", b"/large").removesuffix(b"0\r\n\r\n") + b"100000\r\n" + b" " * (1 << 20)
    bomb = gzip.compress(b" " * (32 << 20))
    for raw in (
        stated,
        request("POST", "/echo", b" " * over, **JSON),
        chunked,
        endless,
        request("POST", "/echo", bomb, Content_Encoding="gzip", **JSON),
    ):
        document = await problem(door, raw)
        assert (document["type"], document["field"]) == ("message-too-large", "")
    assert surface.bodies == []


async def test_a_body_of_exactly_the_limit_passes(surface: Surface, door: Path) -> None:
    """The limit is the largest body that is taken."""
    body = b'{"a":"' + b"x" * (BODY_BYTES_MAX - 8) + b'"}'
    assert (await ask(door, request("POST", "/echo", body, **JSON))).status == 200
    assert surface.bodies == [body]


async def test_a_client_that_expects_is_told_to_continue(door: Path) -> None:
    """`Expect: 100-continue` is answered before the body is awaited, and a refusal comes without asking for it."""
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n"
    async with asyncio.timeout(DEADLINE_SECONDS):
        reader, writer = await asyncio.open_unix_connection(door)
        writer.write(head + b"Content-Length: 2\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert await reader.readline() == b"\r\n"
        writer.write(b"{}")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()
    replies = await exchange(door, head + b"Connection: close\r\nContent-Length: 999999\r\n\r\n")
    assert [reply.status for reply in replies] == [413]


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "", ";;;", "application/jsonx"])
async def test_other_media_types_are_refused(door: Path, content_type: str) -> None:
    """415 unless the body says that it is JSON."""
    document = await problem(door, request("POST", "/echo", b"{}", Content_Type=content_type))
    assert (document["type"], document["field"]) == ("unsupported-media-type", "header Content-Type")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a":1,"a":2}', b"[" * 50_000])
async def test_malformed_json_is_a_400(door: Path, body: bytes) -> None:
    """What strict JSON refuses leaves as a 400 problem."""
    assert (await problem(door, request("POST", "/echo", body, **JSON)))["type"] == "malformed-json"


async def test_undecodable_bodies_are_a_400(door: Path) -> None:
    """A body that is not what its Content-Encoding says is malformed."""
    raw = request("POST", "/echo", b"{}", Content_Encoding="gzip", **JSON)
    assert (await problem(door, raw))["type"] == "malformed-request"


@pytest.mark.parametrize(
    ("target", "item"),
    [("/items/a%2Fb", "a/b"), ("/items/%C3%A9", "é"), ("/items/a%25b", "a%b"), ("/items/%40x", "@x")],
)
async def test_path_parameters_are_decoded_after_matching(door: Path, target: str, item: str) -> None:
    """A percent-encoded slash is part of the parameter, and each parameter is decoded once."""
    assert json.loads((await ask(door, request("GET", target))).body)["item"] == item


@pytest.mark.parametrize(
    "n",
    ["11", "-1", "", "x", "1.0", "1_0", "%31%30%30", "%D9%A1", "0" * 30 + "99", "0" * 20 + "9" * 5_000, "1%0A"],
)
async def test_query_numbers_are_whole_and_in_bounds(door: Path, n: str) -> None:
    """Anything but a whole number in bounds is a 422 that names the parameter: leading zeros hide nothing."""
    document = await problem(door, request("GET", f"/items/a?n={n}"))
    assert (document["type"], document["field"]) == ("invalid-field", "query n")


async def test_paths_that_do_not_decode_are_refused(door: Path) -> None:
    """Percent-encoded bytes that are not UTF-8 are a 422 that names the parameter."""
    document = await problem(door, request("GET", "/items/%FF"))
    assert (document["type"], document["field"]) == ("invalid-field", "path item")


async def test_a_fault_of_ours_tells_nothing(door: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A handler's exception is a 500 problem without its words or traceback; the log has both."""
    reply = await ask(door, request("GET", "/fault", Accept="text/html"))
    assert reply.status == 500
    assert json.loads(reply.body)["type"] == "internal"
    assert b"secret inner words" not in reply.body
    assert b"Traceback" not in reply.body
    assert "secret inner words" in caplog.text


async def test_waiting_is_told_in_a_header(door: Path) -> None:
    """Where waiting helps, `Retry-After` says how long, in whole seconds."""
    reply = await ask(door, request("GET", "/refuse"))
    assert (reply.status, reply.headers["retry-after"]) == (429, "2")
    assert json.loads(reply.body)["retry_after"] == 1.6


async def test_a_handler_is_cancelled_when_its_client_goes(surface: Surface, door: Path) -> None:
    """A long-poll whose client closed the connection ends at once."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        _, writer = await asyncio.open_unix_connection(door)
        writer.write(request("GET", "/hang"))
        await surface.entered.wait()
        assert not surface.cancelled.is_set()
        writer.close()
        await surface.cancelled.wait()
    assert surface.cancelled.is_set()


async def test_an_answer_that_cannot_be_written_is_taken_back(surface: Surface, door: Path) -> None:
    """`undelivered` runs, once, when the client goes while its answer is being written."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        _, writer = await asyncio.open_unix_connection(door)
        writer.write(request("GET", "/vast"))
        await surface.entered.wait()
        assert not surface.undelivered.is_set()
        writer.transport.abort()
        await surface.undelivered.wait()
    assert surface.undelivered_count == 1


async def test_an_answer_to_nobody_is_taken_back(surface: Surface, door: Path) -> None:
    """`undelivered` runs, once, when the client went while its answer was being made."""
    assert await exchange(door, request("GET", "/gone")) == []
    async with asyncio.timeout(DEADLINE_SECONDS):
        await surface.undelivered.wait()
    assert surface.undelivered_count == 1


async def test_a_delivered_answer_is_not_taken_back(surface: Surface, door: Path) -> None:
    """`undelivered` does not run for an answer that was read."""
    reply = await ask(door, request("GET", "/vast"))
    assert len(reply.body) == VAST_BYTES
    assert surface.undelivered_count == 0


def test_the_pure_parser_refuses_the_same_requests() -> None:
    """The corpus of malformed requests passes under aiohttp's pure Python parser as well."""
    corpus = Path(__file__).with_name("test_malformed_http.py")
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "pytest", os.fspath(corpus)],
        env={**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"},
        cwd=corpus.parents[3],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
