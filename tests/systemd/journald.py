"""The box's journal: entries read back, and entries written by the installed package."""

import json
from typing import Any

from tests.systemd.box import Box
from tests.systemd.installation import PYTHON

_RECORD = """
import asyncio, json, sys, time
from pathlib import Path
from shared.clock import Clock
from shared.journal import Entry, Journal
from shared.journal_events import EVENTS
events = {event.name: event for event in EVENTS}
async def record():
    for folder, name, message, kind, details in json.loads(sys.argv[1]):
        if isinstance(message, list):
            message = message[0] * message[1]
        begin = time.monotonic()
        entry = Entry(events[name], message, kind, "pm", details)
        recorded = await Journal("test", Path(folder), Clock()).record(entry)
        print(json.dumps([recorded, time.monotonic() - begin]))
asyncio.run(record())
"""


def entries(box: Box, *matches: str) -> list[dict[str, Any]]:
    """Entries of the journal, oldest first, each field whole; what has arrived is there."""
    box.run("journalctl", "--sync")
    done = box.run("journalctl", "--output=json", "--all", "--no-pager", *matches)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(box: Box, *calls: tuple[str, Any, str, Any], folder: str = "/run", user: int = 0) -> list[tuple[str, float]]:
    """Record entries in a process of the box, each of (event, message, kind, details); where each went, and how long
    it took in seconds. A message may be [text, times]."""
    arguments = json.dumps([[folder, *call] for call in calls])
    command = (PYTHON, "-c", _RECORD, arguments)
    if user:
        command = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command)
    return [(where, seconds) for where, seconds in map(json.loads, box.run(*command).stdout.splitlines())]


def text(field: Any) -> str:
    """A field of `journalctl -o json`: text, or the numbers of its bytes where it holds what is not printable."""
    return bytes(field).decode() if isinstance(field, list) else str(field)
