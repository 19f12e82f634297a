"""Entries for the operator: one, whole, never confused with another, and a true word about where it went."""

import asyncio
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shared.journal
import shared.late_entries
from shared.clock import Clock
from shared.emergency_file import FILE_BYTES_MAX, FILE_NAME, EmergencyFile
from shared.journal import DETAILS_BYTES_MAX, MESSAGE_BYTES_MAX, Entry, Journal, _within
from shared.journal_events import CLEARED, EMERGENCY
from shared.journal_socket import send_entry
from shared.late_entries import LateEntries
from tests.support.deployment import until
from tests.support.fake_journal import FakeJournal, fake_journal

INJECTION = "help\n\nPRIORITY=7\nMESSAGE=fake\nMESSAGE\n\x05\x00\x00\x00\x00\x00\x00\x00fake2\n"


@pytest.fixture
def listening(short_folder: Path) -> Iterator[FakeJournal]:
    with fake_journal(short_folder / "journal") as journal:
        yield journal


@pytest.fixture
def journal(short_folder: Path) -> Journal:
    """Writes to the fake journal where there is one, and has a folder."""
    return Journal("multiclaw-sidecar", short_folder, Clock(), short_folder / "journal")


def entry(message: str = "help", details: Any = None) -> Entry:
    return Entry(EMERGENCY, message, "stuck", "pm", details)


def lines(folder: Path, name: str = FILE_NAME) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="ascii").splitlines()]


async def test_an_entry_is_structured(listening: FakeJournal, journal: Journal) -> None:
    """Priority, a fixed message id and our fields travel beside the message, each once."""
    assert await journal.record(entry(details={"n": [1, "\n"]})) == "journald"
    assert await journal.record(Entry(CLEARED, "", "stuck")) == "journald"
    first, second = listening.entries()
    assert first == {
        "MESSAGE": b"help",
        "MESSAGE_ID": b"5a2f6a3ce1f64f0b9c8b5d0f5c7b8a11",
        "PRIORITY": b"2",
        "SYSLOG_IDENTIFIER": b"multiclaw-sidecar",
        "MULTICLAW_EVENT": b"emergency",
        "MULTICLAW_AGENT": b"pm",
        "MULTICLAW_KIND": b"stuck",
        "MULTICLAW_DETAILS": b'{"n":[1,"\\n"]}',
    }
    assert (second["PRIORITY"], second["MESSAGE"]) == (b"5", CLEARED.title.encode())


@pytest.mark.parametrize(
    ("message", "read"),
    [
        (INJECTION, INJECTION.replace("\x05", "\\x05").replace("\x00", "\\x00")),
        ("a\x00b\x1b[2J\x7f\x9b", "a\\x00b\\x1b[2J\\x7f\\x9b"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\udce9"),
        ("", EMERGENCY.title),
        ("x" * 48 * 1024, "x" * 48 * 1024),
    ],
)
async def test_no_message_becomes_fields(listening: FakeJournal, journal: Journal, message: str, read: str) -> None:
    """Newlines stay inside their field, what is no text is written out, and the datagram is one entry."""
    assert await journal.record(entry(message, {"text": message})) == "journald"
    (fields,) = listening.entries()
    assert fields["MESSAGE"].decode() == read
    assert (fields["PRIORITY"], fields["MULTICLAW_AGENT"]) == (b"2", b"pm")
    assert json.loads(fields["MULTICLAW_DETAILS"]) == {"text": message}


@pytest.mark.parametrize("unit", ["x", "é", '"', "\U0001f600"])
async def test_what_is_too_large_is_cut_with_a_mark(listening: FakeJournal, journal: Journal, unit: str) -> None:
    """A mebibyte and more arrives as valid text and valid JSON within the bounds, and tells how much there was."""
    huge = unit * 1024 * 1024
    assert await journal.record(entry(huge, [huge])) == "journald"
    (fields,) = listening.entries()
    message, details = fields["MESSAGE"].decode(), json.loads(fields["MULTICLAW_DETAILS"])
    size = len(huge.encode())
    assert len(fields["MESSAGE"]) <= MESSAGE_BYTES_MAX
    assert message.startswith(unit * 10_000)
    assert message.endswith(f" ... [cut: it had {size} bytes]")
    assert len(fields["MULTICLAW_DETAILS"]) <= DETAILS_BYTES_MAX
    assert details["cut"] is True
    assert details["bytes"] >= size


@pytest.mark.parametrize("kind", ["absent", "file", "folder", "stale"])
async def test_without_a_journal_the_file_takes_it(short_folder: Path, journal: Journal, kind: str) -> None:
    """Nothing that is no listening journal is taken for one; the file is private and holds the whole entry."""
    path = short_folder / "journal"
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "stale":
        FakeJournal(path).close()
    assert await journal.record(entry(INJECTION, {"n": 1})) == "file"
    (line,) = lines(short_folder)
    assert (line["priority"], line["event"], line["kind"], line["agent"]) == (2, "emergency", "stuck", "pm")
    assert line["message"].startswith("help\n\nPRIORITY=7\nMESSAGE=fake\n")
    assert line["details"] == {"n": 1}
    assert stat.S_IMODE((short_folder / FILE_NAME).stat().st_mode) == 0o600


async def test_a_full_journal_holds_nobody_up(short_folder: Path, listening: FakeJournal, journal: Journal) -> None:
    """A journal that no longer reads costs under a second, and the entry is in the file."""
    listening.fill()
    begin = time.monotonic()
    assert await journal.record(entry()) == "file"
    assert time.monotonic() - begin < 1
    assert len(lines(short_folder)) == 1
    assert all(fields == {"MESSAGE": b"other"} for fields in listening.entries())


async def test_a_hanging_disk_holds_nobody_up(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With no journal and a disk that hangs, standard error has the line within a second, for two callers at once."""
    released = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: released.wait(30))
    begin = time.monotonic()
    assert await journal.record(entry("first")) == "stderr"
    assert await journal.record(entry("second")) == "stderr"
    assert time.monotonic() - begin < 2
    released.set()
    found = [line for line in capfd.readouterr().err.splitlines() if line.startswith("<2>multiclaw-emergency ")]
    assert [json.loads(line.partition(" ")[2])["message"] for line in found] == ["first", "second"]


@pytest.mark.parametrize("trouble", ["fsync", "write", "short", "symlink", "fifo", "no-folder"])
async def test_a_file_that_fails_is_not_claimed(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], trouble: str
) -> None:
    """What could not be written and synced whole leaves nothing behind, and goes to standard error."""
    folder, path = short_folder, short_folder / FILE_NAME
    write = os.write

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    if trouble == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif trouble == "write":
        monkeypatch.setattr(os, "write", fail)
    elif trouble == "short":
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    elif trouble == "symlink":
        path.symlink_to(short_folder / "elsewhere")
    elif trouble == "fifo":
        os.mkfifo(path)
    else:
        folder = short_folder / "none"
    journal = Journal("multiclaw-sidecar", folder, Clock(), short_folder / "journal")
    assert await journal.record(entry()) == "stderr"
    assert capfd.readouterr().err.count("<2>multiclaw-emergency ") == 1
    assert not (short_folder / "elsewhere").exists()
    if trouble in {"fsync", "write", "short"}:
        assert path.read_bytes() == b""


def test_the_file_is_bounded(short_folder: Path) -> None:
    """Past a mebibyte the file becomes the one before; the newest lines are there, and never more than two files."""
    file = EmergencyFile(short_folder)
    for number in range(5 * 16):
        assert file.append(b'{"n":%d,"x":"%s"}' % (number, b"x" * (FILE_BYTES_MAX // 16)), 1)
    assert sorted(path.name for path in short_folder.iterdir()) == [FILE_NAME, FILE_NAME + ".1"]
    numbers = [line["n"] for name in (FILE_NAME + ".1", FILE_NAME) for line in lines(short_folder, name)]
    assert numbers == list(range(numbers[0], 80))
    assert FILE_BYTES_MAX <= sum(path.stat().st_size for path in short_folder.iterdir()) <= 2 * FILE_BYTES_MAX


def test_a_torn_line_spoils_only_itself(short_folder: Path) -> None:
    """What a crash left without an end is ended before the next line."""
    (short_folder / FILE_NAME).write_bytes(b'{"n":1}\n{"n":')
    assert EmergencyFile(short_folder).append(b'{"n":3}', 1)
    assert (short_folder / FILE_NAME).read_bytes() == b'{"n":1}\n{"n":\n{"n":3}\n'


async def test_no_thread_is_no_silence(short_folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no more threads, the entry is written all the same."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await journal.record(entry()) == "file"
    assert len(lines(short_folder)) == 1


async def test_a_cancellation_is_never_swallowed(monkeypatch):
    """Not even in the turn in which the work is done: whoever stops the caller waits for it (cpython#86296)."""

    def no_thread(_):
        raise RuntimeError("no more threads")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    cancelled = 0
    for turns in range(6):
        task = asyncio.create_task(_within(10, lambda: True))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            cancelled += 1
            with pytest.raises(asyncio.CancelledError):
                await task
    assert 2 <= cancelled <= 5


def late(journal: FakeJournal) -> list[tuple[bytes, bytes]]:
    """Message and line of each entry that was handed in late."""
    return [(entry["MESSAGE"], entry["MULTICLAW_LINE"]) for entry in journal.entries()]


async def test_what_went_to_the_file_reaches_the_journal_later(short_folder: Path, monkeypatch) -> None:
    """By its writer and once: what was there before the start, and what comes while it runs; each says when it was
    raised, and which line it was."""
    monkeypatch.setattr(shared.journal, "_LATE_SECONDS", 0.02)
    writer = Journal("multiclaw-sidecar", short_folder, Clock(), short_folder / "journal")
    assert await writer.record(entry("first", {"a": "\u00e9"})) == "file"
    found: list[dict[str, bytes]] = []
    async with writer.handing_in():
        with fake_journal(short_folder / "journal") as listening:
            await until(lambda: found.extend(listening.entries()) or len(found) == 1, "the first is there")
        (short_folder / "journal").unlink()
        assert await writer.record(entry("second")) == "file"
        with fake_journal(short_folder / "journal") as listening:
            await until(lambda: found.extend(listening.entries()) or len(found) > 1, "the second is there")
    first, second = found
    assert (first["MESSAGE"], second["MESSAGE"]) == (b"first", b"second")
    (line, _) = lines(short_folder)
    assert first["MULTICLAW_TIME"].decode() == line["time"]
    assert json.loads(first["MULTICLAW_DETAILS"]) == {"a": "\u00e9"}
    assert (first["PRIORITY"], first["MESSAGE_ID"].decode()) == (b"2", EMERGENCY.message_id)
    assert first["MULTICLAW_LINE"] != second["MULTICLAW_LINE"]


def test_a_journal_that_takes_no_more_gets_each_line_once(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did not take is handed in later, in order; garbage is passed over, and so is all of it the next time."""
    writer, file = LateEntries("x", short_folder, short_folder / "journal"), EmergencyFile(short_folder)
    line = {"time": "t", "priority": 2, "message_id": "m", "event": "e", "agent": "", "kind": "", "details": None}
    for text in ("0", "garbage", "1", "2"):
        document = json.dumps({**line, "message": text}).encode()
        file.append(b"{" if text == "garbage" else document, 1)
    assert not writer.hand_in()
    with fake_journal(short_folder / "journal") as listening:
        with monkeypatch.context() as patch:
            room = [True, False]
            patch.setattr(shared.late_entries, "send_entry", lambda *call: room.pop(0) and send_entry(*call))
            assert not writer.hand_in()
        assert writer.hand_in()
        assert [message for message, _ in late(listening)] == [b"0", b"1", b"2"]
        assert writer.hand_in()
        assert LateEntries("x", short_folder, short_folder / "journal").hand_in()
        assert listening.entries() == []
        (short_folder / "emergencies.handed-in").write_text("spoiled")
        assert LateEntries("x", short_folder, short_folder / "journal").hand_in()
        assert len(listening.entries()) == 3
