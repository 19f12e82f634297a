"""Malformed HTTP over a raw socket: a problem or a closed connection, and never a smuggled second request.

Both of aiohttp's parsers must pass: the extension's, and the pure one of `AIOHTTP_NO_EXTENSIONS=1`, under which
`test_service.py` runs this file again.
"""

from pathlib import Path

import pytest

from tests.integration.shared.surface import Surface, exchange

HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
EVIL = HEAD + b'Content-Length: 10\r\n\r\n{"evil":1}'

MALFORMED = {
    "length and chunked": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "the same length twice": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": HEAD + b"Content-Length: 2, 3\r\n\r\n{}",
    "negative length": HEAD + b"Content-Length: -1\r\n\r\n{}",
    "signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "hexadecimal length": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "CR before a hidden header": HEAD + b"Content-Length: 2\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n{}",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity coding": HEAD + b"Transfer-Encoding: identity\r\n\r\n{}",
    "vertical tab in the coding": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "LF in a chunk extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n",
    "LF ends a chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "no chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "negative chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "space in a header name": HEAD + b"X Y: 1\r\nContent-Length: 2\r\n\r\n{}",
    "space before a colon": HEAD + b"Content-Length : 2\r\n\r\n{}",
    "no header name": HEAD + b": 1\r\nContent-Length: 2\r\n\r\n{}",
    "no colon": HEAD + b"nothing\r\nContent-Length: 2\r\n\r\n{}",
    "folded header": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a header": HEAD + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "bytes beyond ASCII in a name": HEAD + b"X\xff: \xff\r\nContent-Length: 2\r\n\r\n{}",
    "header of 64 KiB": HEAD + b"X: " + b"a" * 65_536 + b"\r\nContent-Length: 2\r\n\r\n{}",
    "40,000 headers": HEAD + b"".join(b"X%d: 1\r\n" % n for n in range(40_000)) + b"Content-Length: 2\r\n\r\n{}",
    "target of 64 KiB": b"GET /" + b"a" * 65_536 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": b"POST /echo HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "broken absolute target": b"GET http://[::bad/echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 50 + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "method beyond ASCII": b"G\xffT /echo HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_requests_end_the_connection(raw: bytes, surface: Surface, door: Path) -> None:
    """The answer is a 4xx problem or nothing, the connection closes by itself, and what follows is never run."""
    replies = await exchange(door, raw + EVIL)
    assert surface.bodies == []
    assert len(replies) <= 1
    for reply in replies:
        assert reply.is_problem
        assert 400 <= reply.status < 500
        assert b"Traceback" not in reply.body


@pytest.mark.parametrize("target", [b"/items/\xff", b"/items/a?n=\xed\xa0\x80", b"/\xc3\xa9"])
async def test_targets_beyond_ascii_are_refused(target: bytes, door: Path) -> None:
    """Raw bytes in a target, valid UTF-8 or not, are a 400, whichever parser reads them."""
    replies = await exchange(door, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert [(reply.status, reply.is_problem) for reply in replies] == [(400, True)]


async def test_unusual_and_well_formed_requests_are_served_once(surface: Surface, door: Path) -> None:
    """An absolute target, chunk extensions and trailers are HTTP: served, each once, and what follows them too."""
    absolute = HEAD.replace(b"/echo", b"http://other.test/echo")
    await exchange(door, absolute + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n"
    await exchange(door, chunked + EVIL.replace(b"Host: x", b"Host: x\r\nConnection: close"))
    assert surface.bodies == [b"{}", b"{}", b'{"evil":1}']


async def test_a_request_cut_short_is_not_run(surface: Surface, door: Path) -> None:
    """A body that ends before its stated length, or within a chunk, reaches no handler."""
    await exchange(door, HEAD + b'Content-Length: 10\r\n\r\n{"a"', half_close=True)
    await exchange(door, HEAD + b"Transfer-Encoding: chunked\r\n\r\n8\r\n{}", half_close=True)
    await exchange(door, HEAD + b"Content-Length: 2\r\n", half_close=True)
    assert surface.bodies == []
