"""The emergency channel: a journal entry of priority `crit` that needs no adapter (promise 13).

Where there is no journal, one line goes to standard error with the `<2>` prefix that systemd reads as `crit`
(sd-daemon(3)), and the caller is told so.
"""

import asyncio
import contextlib
import json
import logging
import select
import socket
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from shared.api import EmergencyRequest
from shared.strict_json import encode

_log = logging.getLogger(__name__)

MESSAGE_ID: Final = "5a2f6a3ce1f64f0b9c8b5d0f5c7b8a11"
"""Ours alone, and fixed for ever: `journalctl MESSAGE_ID=…` finds every emergency of every deployment."""

JOURNAL_SOCKET: Final = Path("/run/systemd/journal/socket")  # systemd's native protocol

_PRIORITY_CRIT: Final = 2
_WRITE_SECONDS: Final = 1.0

Recorded = Literal["journald", "stderr"]
Send = Callable[..., int]


class Emergency:
    """Writes entries for one agent; `record` tells the truth about where an entry went."""

    def __init__(self, agent: str, journal_socket: Path = JOURNAL_SOCKET, send: Send | None = None) -> None:
        self._agent = agent
        self._journal_socket = journal_socket
        self._send = send or _journal_send

    async def record(self, request: EmergencyRequest) -> Recorded:
        """Write one entry, within about a second, without holding up anything else."""
        if await self._to_journal(self._fields(request)):
            return "journald"
        _to_stderr(self._agent, request)
        return "stderr"

    def _fields(self, request: EmergencyRequest) -> dict[str, Any]:
        return {
            "MESSAGE": request.summary,
            "MESSAGE_ID": MESSAGE_ID,
            "PRIORITY": _PRIORITY_CRIT,
            "SYSLOG_IDENTIFIER": "multiclaw-sidecar",
            "MULTICLAW_AGENT": self._agent,
            "MULTICLAW_KIND": request.kind,
            "MULTICLAW_DETAILS": encode(request.details).decode(),
        }

    async def _to_journal(self, fields: dict[str, Any]) -> bool:
        """A daemon thread, not the loop's pool: a journal that hangs must not hold up our own end."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[bool] = loop.create_future()

        def tell(result: bool) -> None:
            if not written.done():
                written.set_result(result)

        def work() -> None:
            result = self._write(fields)
            with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(tell, result)

        threading.Thread(target=work, name="journal", daemon=True).start()
        try:
            return await asyncio.wait_for(written, 2 * _WRITE_SECONDS)
        except TimeoutError:
            return False

    def _write(self, fields: dict[str, Any]) -> bool:
        try:
            return _takes_entries(self._journal_socket) and self._send(**fields) >= 0
        except Exception:
            _log.exception("journal-failed")
            return False


def _takes_entries(path: Path) -> bool:
    """Whether a journal listens and has room. `journal.send` itself tells neither: without a journal it reports
    success, and with a full one it waits while it holds the interpreter."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.setblocking(False)
            probe.connect(str(path))
            return bool(select.select([], [probe], [], _WRITE_SECONDS)[1])
    except OSError:
        return False


def _journal_send(**fields: Any) -> int:
    from cysystemd import journal  # noqa: PLC0415 - absent off Linux, and needed only in an emergency

    return int(journal.send(**fields))


def _to_stderr(agent: str, request: EmergencyRequest) -> None:
    entry = {"agent": agent, "kind": request.kind, "summary": request.summary, "details": request.details}
    print(f"<{_PRIORITY_CRIT}>multiclaw-emergency {json.dumps(entry)}", file=sys.stderr, flush=True)
