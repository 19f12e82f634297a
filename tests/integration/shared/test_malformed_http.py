"""Malformed HTTP over a raw socket: a problem or a closed connection, and never a smuggled second request.

Both of aiohttp's parsers must pass: the extension's, and the pure one of `AIOHTTP_NO_EXTENSIONS=1`, under which
`test_service.py` runs this file again.
"""

from pathlib import Path

import pytest

from tests.integration.shared.surface import Surface, exchange
from tests.support.malformed_http import HEAD, MALFORMED

EVIL = HEAD + b'Content-Length: 10\r\n\r\n{"evil":1}'


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
