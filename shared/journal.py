"""Entries for the operator that need no adapter (promise 13): to the journal, else to a local file, else to stderr.

`record` says truthfully which of the three took the entry, and holds its caller up for a second at most.
"""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from shared.background import beside
from shared.clock import Clock
from shared.emergency_file import EmergencyFile
from shared.journal_events import JournalEvent
from shared.journal_socket import JOURNAL_SOCKET, listens, send_entry
from shared.late_entries import LateEntries
from shared.times import iso

MESSAGE_BYTES_MAX: Final = 64 * 1024
DETAILS_BYTES_MAX: Final = 64 * 1024
"""Longer ones are cut, with a mark that tells how long they were. Together they fit one datagram to the journal."""

_PATIENCE_SECONDS: Final = 0.3
"""How long an entry waits for room in the journal, or for its turn at the file."""

_RUNG_SECONDS: Final = 0.4
"""What each of journal and file may take in all; what hangs longer is left behind, and the next one tried."""

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}

_HAND_IN_SECONDS: Final = 5.0
"""For one try to hand in what had to go to the file; a mebibyte takes well under one."""

_LATE_SECONDS: Final = 2.0
_LATE_SECONDS_MAX: Final = 60.0
"""How often the journal is tried again with what had to go to the file; where nothing had to, it is not."""

Recorded = Literal["journald", "file", "stderr"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `kind` is what it is about, in the catalogue's words; `details` is any JSON value."""

    event: JournalEvent
    message: str
    kind: str
    agent: str = ""
    details: Any = None


class Journal:
    """Writes the entries of one process. `folder` is where it keeps its state, and has a place for the file."""

    def __init__(self, identifier: str, folder: Path, clock: Clock, socket_path: Path = JOURNAL_SOCKET) -> None:
        self._identifier = identifier
        self._file = EmergencyFile(folder)
        self._late = LateEntries(identifier, folder, socket_path)
        self._late_lock = threading.Lock()
        self._has_late = asyncio.Event()
        self._clock = clock
        self._socket_path = socket_path

    async def record(self, entry: Entry) -> Recorded:
        """Write one entry; raises nothing. It is handed to the journal, synced to the file, or on standard error.

        Whoever reads the journal tells writers apart by what journald itself adds (`_UID`, `_SYSTEMD_UNIT`); `agent`
        is only what this process says.
        """
        fields = self._fields(entry)
        if await _within(_RUNG_SECONDS, lambda: send_entry(self._socket_path, fields, _PATIENCE_SECONDS)):
            return "journald"
        line = self._line(entry, fields)
        if await _within(_RUNG_SECONDS, lambda: self._file.append(line, _PATIENCE_SECONDS)):
            self._has_late.set()
            return "file"
        await _within(_RUNG_SECONDS / 2, lambda: _to_stderr(entry.event.priority, line))
        return "stderr"

    @asynccontextmanager
    async def handing_in(self) -> AsyncIterator[None]:
        """While the block lasts, what had to go to the file is handed to the journal once there is one."""
        self._has_late.set()
        async with beside(self._hand_in()):
            yield

    async def _hand_in(self) -> None:
        while True:
            await self._has_late.wait()
            self._has_late.clear()
            delay = _LATE_SECONDS
            while not (listens(self._socket_path) and await _within(_HAND_IN_SECONDS, self._hand_in_once)):
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LATE_SECONDS_MAX)

    def _hand_in_once(self) -> bool:
        """One at a time: what a disk that hangs holds up must not pile up."""
        if not self._late_lock.acquire(blocking=False):
            return False
        try:
            return self._late.hand_in()
        finally:
            self._late_lock.release()

    def _fields(self, entry: Entry) -> dict[str, bytes]:
        return {
            "MESSAGE": _message(entry.message or entry.event.title),
            "MESSAGE_ID": entry.event.message_id.encode(),
            "PRIORITY": b"%d" % entry.event.priority,
            "SYSLOG_IDENTIFIER": self._identifier.encode(),
            "MULTICLAW_EVENT": entry.event.name.encode(),
            "MULTICLAW_AGENT": _bytes(entry.agent),
            "MULTICLAW_KIND": _bytes(entry.kind),
            "MULTICLAW_DETAILS": _details(entry.details),
        }

    def _line(self, entry: Entry, fields: dict[str, bytes]) -> bytes:
        """The same as JSON, in ASCII: one line, whatever it holds."""
        document = {
            "time": iso(self._clock.wall_us()),
            "priority": entry.event.priority,
            "message_id": entry.event.message_id,
            "event": entry.event.name,
            "agent": entry.agent,
            "kind": entry.kind,
            "message": fields["MESSAGE"].decode(),
            "details": json.loads(fields["MULTICLAW_DETAILS"]),
        }
        return json.dumps(document).encode("ascii")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate stands for a byte that was no UTF-8


def _message(text: str) -> bytes:
    """Control characters are written out: journalctl shows a message that holds one only as `[blob data]`."""
    whole = _bytes(text.translate(_CONTROLS))
    if len(whole) <= MESSAGE_BYTES_MAX:
        return whole
    mark = f" ... [cut: it had {len(whole)} bytes]".encode()
    return whole[: MESSAGE_BYTES_MAX - len(mark)].decode("utf-8", "ignore").encode() + mark


def _details(value: Any) -> bytes:
    """JSON, and JSON still when it was cut."""
    whole = _json(value)
    if len(whole) <= DETAILS_BYTES_MAX:
        return whole
    start = whole[: DETAILS_BYTES_MAX // 4].decode("utf-8", "ignore")  # a quarter: as a string it is escaped again
    return _json({"cut": True, "bytes": len(whole), "start": start})


def _json(value: Any) -> bytes:
    return _bytes(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr))


def _to_stderr(priority: int, line: bytes) -> bool:
    """One line, with the prefix that systemd reads as its priority (sd-daemon(3))."""
    print(f"<{priority}>multiclaw-emergency {line.decode('ascii')}", file=sys.stderr, flush=True)
    return True


async def _within(seconds: float, work: Callable[[], bool]) -> bool:
    """Whether `work` succeeds in time, in a daemon thread: one that hangs holds up neither the loop nor our end."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bool] = loop.create_future()

    def tell(done: bool) -> None:
        if not result.done():
            result.set_result(done)

    def run() -> None:
        try:
            done = work()
        except (OSError, ValueError):  # a standard error that is closed
            done = False
        with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(tell, done)

    try:
        threading.Thread(target=run, name="journal", daemon=True).start()
    except RuntimeError:  # the system gives no more threads: better held up for a moment than silent
        run()
    try:
        async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 may swallow a cancellation (cpython#86296)
            return await result
    except TimeoutError:
        return False
