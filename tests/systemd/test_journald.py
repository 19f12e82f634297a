"""Emergencies with a real journald: one entry each, whole, and a true word when journald is not there."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.journal import MESSAGE_BYTES_MAX
from shared.journal_events import CLEARED, EMERGENCY, EVENTS
from tests.systemd.box import Box
from tests.systemd.installation import PYTHON
from tests.systemd.journald import entries, record, text

_SOCKETS = ("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket")
_FILL = """
from pathlib import Path
from shared.journal_socket import JOURNAL_SOCKET, send_entry
while send_entry(JOURNAL_SOCKET, {"MESSAGE": b"filler"}, 0.1):
    pass
"""
INJECTION = "help\n\nPRIORITY=7\nMESSAGE=fake\n_UID=0\nMESSAGE\n"


@pytest.fixture
def without_journald(box: Box) -> Iterator[None]:
    """journald and its sockets are stopped, so that nothing starts it again."""
    box.run("systemctl", "stop", *_SOCKETS, "systemd-journald.service")
    yield
    box.run("systemctl", "start", *_SOCKETS, "systemd-journald.service")


@pytest.mark.parametrize(
    ("kind", "message", "read"),
    [
        ("inject", INJECTION, INJECTION),
        ("controls", "a\x00b\x1b[2J", "a\\x00b\\x1b[2J"),
        ("not-utf8", "caf\udce9", "caf\\udce9"),
        ("empty", "", EMERGENCY.title),
        ("large", ["x", 48 * 1024], "x" * 48 * 1024),
    ],
)
def test_one_entry_each_and_whole(box: Box, kind: str, message: object, read: str) -> None:
    """Whatever the text holds, journald stores one entry of priority 2 under our id, with the writer's true user."""
    assert [where for where, _ in record(box, ("emergency", message, kind, {"text": message}), user=1)] == ["journald"]
    (entry,) = entries(box, f"MULTICLAW_KIND={kind}")
    assert text(entry["MESSAGE"]) == read
    assert (entry["PRIORITY"], entry["MESSAGE_ID"], entry["_UID"]) == ("2", EMERGENCY.message_id, "1")
    assert (entry["MULTICLAW_AGENT"], entry["SYSLOG_IDENTIFIER"]) == ("pm", "test")
    assert json.loads(text(entry["MULTICLAW_DETAILS"])) == {"text": message}


def test_a_mebibyte_is_cut_with_a_mark(box: Box) -> None:
    """A message far past the bound is one entry, cut, and says so."""
    record(box, ("emergency", ["y", 1024 * 1024], "huge", None))
    (entry,) = entries(box, "MULTICLAW_KIND=huge")
    assert len(text(entry["MESSAGE"])) == MESSAGE_BYTES_MAX
    assert text(entry["MESSAGE"]).endswith("y ... [cut: it had 1048576 bytes]")


def test_every_kind_is_found_by_its_id(box: Box) -> None:
    """Each event of the table can be asked for by its id, at its priority."""
    record(box, *((event.name, "", "table", None) for event in EVENTS))
    for event in EVENTS:
        (entry,) = entries(box, "MULTICLAW_KIND=table", f"MESSAGE_ID={event.message_id}")
        assert (entry["MULTICLAW_EVENT"], entry["PRIORITY"]) == (event.name, str(event.priority))
    assert CLEARED.priority > EMERGENCY.priority


@pytest.mark.usefixtures("without_journald")
def test_without_journald_the_file_has_it(box: Box) -> None:
    """With journald stopped an entry goes to the file, at once, and the answer says so."""
    box.run("install", "-d", "-o", "1", "-m", "700", "/run/without")
    ((where, seconds),) = record(box, ("emergency", "alone", "without", {"n": 1}), folder="/run/without", user=1)
    assert where == "file"
    assert seconds < 1
    (line,) = map(json.loads, box.path("/run/without/emergencies.jsonl").read_text().splitlines())
    assert (line["message"], line["details"], line["priority"]) == ("alone", {"n": 1}, 2)


def test_a_journald_that_hangs_is_not_waited_for(box: Box) -> None:
    """Once its queue is full an entry costs under a second and goes to the file, and only there."""
    pid = box.run("systemctl", "show", "-P", "MainPID", "systemd-journald.service").stdout.strip()
    box.run("install", "-d", "/run/hang")
    box.run("kill", "-STOP", pid)
    try:
        (early, _), *_ = record(box, ("emergency", "early", "hang", None), folder="/run/hang")
        box.run(PYTHON, "-c", _FILL)
        (late, seconds), *_ = record(box, ("emergency", "late", "hang", None), folder="/run/hang")
    finally:
        box.run("kill", "-CONT", pid)
    assert (early, late) == ("journald", "file")
    assert seconds < 1
    (line,) = map(json.loads, box.path("/run/hang/emergencies.jsonl").read_text().splitlines())
    assert line["message"] == "late"
    assert [entry["MESSAGE"] for entry in entries(box, "MULTICLAW_KIND=hang")] == ["early"]


def test_a_journal_closed_to_the_writer_is_not_claimed(box: Box) -> None:
    """A socket that refuses its user leads to the file."""
    socket = box.path("/run/systemd/journal/socket")
    box.run("install", "-d", "-o", "1", "-m", "700", "/run/refused")
    socket.chmod(0o600)
    try:
        ((where, _),) = record(box, ("emergency", "refused", "refused", None), folder="/run/refused", user=1)
    finally:
        socket.chmod(0o666)
    assert where == "file"
    assert entries(box, "MULTICLAW_KIND=refused") == []


def test_the_box_leaves_nothing(box: Box) -> None:
    """A second box boots beside the first, and when it is closed its processes and its mounts are gone."""
    with Box() as other:
        pid = other.path("/proc/self").parts[2]
        assert other.path("/run/systemd/private").exists()
    assert box.run("systemctl", "is-system-running", check=False).stdout.strip() in {"running", "degraded"}
    assert "systemd-box" not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), signal.SIG_DFL)
