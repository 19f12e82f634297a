"""Pages in which one bit has flipped, set right by their checksum.

The checksum of a page is two sums of its 32-bit words, and each bit adds its own pair to them
(https://sqlite.org/src/file/ext/misc/cksumvfs.c). What the sums are short of is therefore the pair of the bit that
flipped, if it was one; and where only one bit of the page has that pair, it was that one. Words have so few high bits
that several of those share a pair: such a page stays as it is. A page that was torn, zeroed or overwritten is short of
a pair that no bit has.
"""

import os
import struct
from functools import cache
from pathlib import Path
from typing import Final

from shared.database.checksums import APPLICATION_ID, RESERVED_BYTES, damaged_pages, library_checksums
from shared.database.header import read_header

PAGES_MAX: Final = 64
"""Bits do not flip in more pages than that; what is wrong in more is of another kind."""

_PAGE_BYTES: Final = 8192  # of every store that has checksums; the header may be what is wrong
_WORD: Final = 1 << 32
_BITS: Final = 32


def mend_pages(path: Path) -> list[int]:
    """Set right what can be in a file that nobody has open, and give the numbers of these pages. Raises `OSError`."""
    if library_checksums() != "on":
        return []
    with path.open("r+b", buffering=0) as file:
        mended = [1] if _mend(file.fileno(), 1) else []
        mended += [number for number in _wrong_pages(path) if _mend(file.fileno(), number)]
    _table.cache_clear()  # some megabytes, which are needed once in a lifetime
    return mended


def _wrong_pages(path: Path) -> list[int]:
    """Once the first page is right, without which no other can be found."""
    header = read_header(path)
    if header is None or header.application_id != APPLICATION_ID or header.page_bytes != _PAGE_BYTES:
        return []
    wrong = damaged_pages(path, PAGES_MAX + 1)
    return [] if len(wrong) > PAGES_MAX else wrong


def _mend(descriptor: int, number: int) -> bool:
    page = os.pread(descriptor, _PAGE_BYTES, (number - 1) * _PAGE_BYTES)
    mended = mend_page(page)
    if mended is None or mended == page:
        return False
    os.pwrite(descriptor, mended, (number - 1) * _PAGE_BYTES)
    return True


def sign_page(path: Path, number: int) -> None:
    """Give a page of a file that nobody has open the checksum of what it holds. Raises `OSError`."""
    with path.open("r+b", buffering=0) as file:
        page = os.pread(file.fileno(), _PAGE_BYTES, (number - 1) * _PAGE_BYTES)
        words = struct.unpack(f"<{_PAGE_BYTES // 4}I", page)
        signed = page[:-RESERVED_BYTES] + struct.pack("<II", *_sums(list(words[:-2])))
        os.pwrite(file.fileno(), signed, (number - 1) * _PAGE_BYTES)


def mend_page(page: bytes) -> bytes | None:
    """The page as it was, which is itself where nothing is wrong; `None` where that cannot be told."""
    if len(page) != _PAGE_BYTES:
        return None
    words = list(struct.unpack(f"<{_PAGE_BYTES // 4}I", page))
    sums = _sums(words[:-2])
    short = (words[-2] - sums[0]) % _WORD, (words[-1] - sums[1]) % _WORD
    if short == (0, 0):
        return page
    table, over = _table(), ((-short[0]) % _WORD, (-short[1]) % _WORD)
    found = [(at, bit) for at, bit in table.get(short, ()) if not words[at] >> bit & 1]
    found += [(at, bit) for at, bit in table.get(over, ()) if words[at] >> bit & 1]
    if len(found) != 1:
        return None
    ((at, bit),) = found
    words[at] ^= 1 << bit
    return struct.pack(f"<{_PAGE_BYTES // 4}I", *words)


def _sums(words: list[int]) -> tuple[int, int]:
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) % _WORD
        second = (second + odd + first) % _WORD
    return first, second


@cache
def _table() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The bits of a page, each as word and place in it, by what the sums are short of when that bit should be set."""
    table: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, pair in enumerate(_pairs()):
        for bit in range(_BITS):
            table.setdefault(((pair[0] << bit) % _WORD, (pair[1] << bit) % _WORD), []).append((at, bit))
    return table


def _pairs() -> list[tuple[int, int]]:
    """What the sums of a page are short of when a word of it lacks 1: two of Fibonacci's numbers. The sums themselves
    stand at its end.
    """
    pairs = [(0, _WORD - 1), (_WORD - 1, 0)]
    even, odd = (1, 1), (0, 1)
    for _ in range((_PAGE_BYTES - RESERVED_BYTES) // 8):
        pairs += [odd, even]
        even, odd = _one_step_earlier(even), _one_step_earlier(odd)
    return pairs[::-1]


def _one_step_earlier(pair: tuple[int, int]) -> tuple[int, int]:
    first = sum(pair) % _WORD
    return first, (first + pair[1]) % _WORD
