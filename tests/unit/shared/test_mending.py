"""A flipped bit is found by the page's checksum, and nothing else is taken for one."""

import random
import struct

import pytest

from shared.database import library_checksums
from shared.database.library import LIBRARY
from shared.database.mending import mend_page, mend_pages

PAGE = 8192


def a_page(seed=1):
    """A page with the checksum that SQLite's extension gives it."""
    content = random.Random(seed).randbytes(PAGE - 8)
    first = second = 0
    for even, odd in struct.iter_unpack("<II", content):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return content + struct.pack("<II", first, second)


def flipped(page, bit):
    """With that bit the other way, counted from the page's first."""
    content = bytearray(page)
    content[bit // 8] ^= 1 << bit % 8
    return bytes(content)


def test_a_page_that_is_right_stays(monkeypatch):
    """By the extension's own judgement too."""
    page = a_page()
    assert mend_page(page) == page
    if library_checksums() == "on":
        connection = LIBRARY.connect(":memory:")
        assert connection.execute("SELECT verify_checksum(?)", (page,)).fetchone() == (1,)
        connection.close()


def test_a_flipped_bit_is_set_right_or_left():
    """Whichever bit: the page as it was, or nothing; of the lower bits of a word always the first, and of all of them
    most times."""
    page, rng = a_page(), random.Random(5)
    bits = [*(rng.randrange(PAGE * 8) for _ in range(400)), *range(PAGE * 8 - 128, PAGE * 8, 9)]
    found = {bit: mend_page(flipped(page, bit)) for bit in bits}
    assert set(found.values()) == {page, None}
    left = [bit for bit, mended in found.items() if mended is None]
    assert all(bit % 32 > 21 or bit >= PAGE * 8 - 128 for bit in left)
    assert len(left) < len(bits) / 3


@pytest.mark.parametrize("seed", range(6))
def test_what_is_no_flipped_bit_is_left(seed):
    """Two bits, a torn page, zeros, another page's content, and what is no page."""
    page, other, rng = a_page(seed), a_page(seed + 100), random.Random(seed)
    two = flipped(flipped(page, rng.randrange(PAGE * 8)), rng.randrange(PAGE * 8))
    torn = page[: PAGE // 2] + other[PAGE // 2 :]
    for harmed in (two, torn, page[:512] + bytes(512) + page[1024:], page[:-8] + other[-8:], page[:100], b""):
        assert mend_page(harmed) is None


@pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())
def test_a_file_is_mended_page_by_page(tmp_path):
    """Each page with one flipped bit, and the header's page size among them; a page with more stays as it is."""
    path = tmp_path / "store.db"
    connection = LIBRARY.connect(path, isolation_level=None)
    for statement in ("PRAGMA page_size=8192", f"PRAGMA application_id={0x4D634B31}", "CREATE TABLE t (a)"):
        connection.execute(statement)
    for n in range(60):
        connection.execute("INSERT INTO t VALUES (?)", (f"{n}" * 1_000,))
    connection.close()
    right = path.read_bytes()
    harmed = bytearray(right)
    for byte in (16, 2 * PAGE + 40, 3 * PAGE + 44):
        harmed[byte] ^= 4
    for byte in (4 * PAGE + 40, 4 * PAGE + 400):
        harmed[byte] ^= 4
    path.write_bytes(harmed)
    assert mend_pages(path) == [1, 3, 4]
    assert path.read_bytes()[: 4 * PAGE] == right[: 4 * PAGE]
    assert path.read_bytes()[4 * PAGE : 5 * PAGE] == harmed[4 * PAGE : 5 * PAGE]
