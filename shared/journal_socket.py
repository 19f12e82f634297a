"""journald's native protocol: one datagram is one entry (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).

Spoken here and not through libsystemd's `sd_journal_send`, which reports success where there is no journal, and with a
full one waits without end while it holds the interpreter.
"""

import os
import select
import socket
import stat
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

JOURNAL_SOCKET: Final = Path("/run/systemd/journal/socket")

DATAGRAM_BYTES_MAX: Final = 160 * 1024
"""Under the default send buffer of Linux (`net.core.wmem_default`, 212,992 with its own overhead), so that an entry is
one datagram and needs no memory file. `send_entry` refuses more."""


def encode_entry(fields: Mapping[str, bytes]) -> bytes:
    """The datagram. Every value goes with its length, so that nothing in it can end it or begin another field."""
    return b"".join(
        b"%s\n%s%s\n" % (name.encode("ascii"), struct.pack("<Q", len(value)), value) for name, value in fields.items()
    )


def listens(path: Path) -> bool:
    """Whether there is a socket at `path`; it may still refuse."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def send_entry(path: Path, fields: Mapping[str, bytes], patience_seconds: float) -> bool:
    """Hand one entry to the journal at `path`; false unless the kernel took it. Waits for room that long at most."""
    datagram = encode_entry(fields)
    if len(datagram) > DATAGRAM_BYTES_MAX:
        return False
    deadline = time.monotonic() + patience_seconds
    try:
        if not listens(path):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.setblocking(False)
            journal.connect(os.fspath(path))
            room = select.poll()  # unlike `select`, for any number of open files
            room.register(journal, select.POLLOUT)
            while (left := deadline - time.monotonic()) > 0 and room.poll(left * 1000):
                try:
                    return journal.send(datagram) == len(datagram)
                except BlockingIOError:  # others filled it meanwhile
                    continue
    except OSError:
        return False
    return False
