"""What proves damage, what a log's mark proves, and which stores are opened how."""

import io
import sqlite3
import struct
import zlib

import pytest

from shared.config import ConfigurationFault
from shared.database import Damage, doubt, is_certain, is_damage
from shared.database.checksums import APPLICATION_ID, judge_store
from shared.database.log_mark import Mark, lost_commits, parse_mark, parse_salts, readable_bytes

SALTS = b"saltsalt"


def failing(code):
    """An error of SQLite's."""
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("code", [11, 11 | 1 << 8, 11 | 3 << 8, 26, 8202])
def test_corruption_is_proof(code):
    """SQLITE_CORRUPT with its kinds, SQLITE_NOTADB, and a page whose checksum is wrong."""
    assert is_damage(failing(code))
    assert is_damage(Damage("words"))


@pytest.mark.parametrize("code", [1, 3, 5, 5 | 1 << 8, 6, 8, 10, 10 | 1 << 8, 10 | 33 << 8, 13, 14, 19, None])
def test_what_may_pass_is_no_proof(code):
    """Busy, locked, read-only, I/O, full, permission: a healthy store is never given up for them
    (`codebase-memory-mcp#1206`).
    """
    assert not is_damage(failing(code))
    assert not is_damage(OSError(5, "words"))


def test_malformed_is_proof_only_on_a_disk_that_can_be_read(tmp_path):
    """SQLite says so of reads that fail with EIO; a wrong checksum is proof whatever the disk does."""
    store = tmp_path / "store.db"
    store.write_bytes(b"bytes")
    assert doubt(store, failing(11)) is None
    store.with_name("store.db-wal").mkdir()  # not even root can read it
    assert "Is a directory" in (doubt(store, failing(11)) or "")
    assert not is_certain(failing(11))
    for proof in (failing(8202), Damage("words")):
        assert is_certain(proof)
        assert doubt(store, proof) is None


def test_judging_a_store():
    """Verified; made without; made with, where the VFS is missing; made with, where the header denies it."""
    assert judge_store("on", APPLICATION_ID, verifying=True) == "on"
    assert judge_store("on", 0, verifying=False) == "off: the store was made without them"
    assert judge_store("off: words", 0, verifying=False) == "off: words"
    with pytest.raises(ConfigurationFault, match="off: words; install"):
        judge_store("off: words", APPLICATION_ID, verifying=False)
    with pytest.raises(Damage):
        judge_store("on", APPLICATION_ID, verifying=False)


def log_header(order, salts=SALTS):
    """The header of a log, with its checksum."""
    magic = b"\x37\x7f\x06\x82" if order == "<" else b"\x37\x7f\x06\x83"
    body = magic + struct.pack(">III", 3007000, 8192, 1) + salts
    first = second = 0
    words = struct.unpack(f"{order}6I", body)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) % 2**32
        second = (second + odd + first) % 2**32
    return body + struct.pack(">II", first, second)


@pytest.mark.parametrize("order", ["<", ">"])
def test_no_flip_of_a_logs_header_goes_unnoticed(order):
    """Its salts are told while it is right, and nothing with any bit of it flipped."""
    header = log_header(order)
    assert parse_salts(header) == SALTS
    for bit in range(8 * 32):
        flipped = (int.from_bytes(header, "big") ^ 1 << bit).to_bytes(32, "big")
        assert parse_salts(flipped) is None
    assert parse_salts(b"") is None
    assert parse_salts(bytes(32)) is None


def test_what_a_mark_proves():
    """Fewer frames of the same log, or no log; more frames, another log and no mark prove nothing."""
    header, mark = log_header("<"), Mark(SALTS, 10)
    assert "frame 9, and 10" in lost_commits(mark, header, 9)
    assert "gone" in lost_commits(mark, b"", 0)
    assert lost_commits(mark, header, 10) is None
    assert lost_commits(mark, log_header("<", b"restart!"), 1) is None
    assert lost_commits(Mark(b"", 0), b"", 0) is None
    assert lost_commits(None, b"", 0) is None


def test_a_mark_that_is_unreadable_says_nothing():
    """A flipped bit of the mark is no loss of the log."""
    body = struct.pack(">8sI", SALTS, 7)
    stored = body + struct.pack(">I", zlib.crc32(body))
    assert parse_mark(stored) == Mark(SALTS, 7)
    for bit in range(8 * 16):
        assert parse_mark((int.from_bytes(stored, "big") ^ 1 << bit).to_bytes(16, "big")) is None
    assert parse_mark(bytes(16)) is None
    assert parse_mark(stored[:-1]) is None


@pytest.mark.parametrize("order", "<>")
def test_a_log_reaches_as_far_as_its_salts(order):
    """What it held before it started anew, and the zeros that were written ahead, are not of it; nor is garbage."""

    def frame(salts):
        return bytes(8) + salts + bytes(8) + bytes(8192)

    own = log_header(order) + 2 * frame(SALTS)
    for rest in (b"", frame(b"olderlog"), bytes(10_000)):
        assert readable_bytes(io.BytesIO(own + rest)) == len(own)
    for nothing in (b"", bytes(10_000), b"garbage" * 1_000):
        assert readable_bytes(io.BytesIO(nothing)) == 0
