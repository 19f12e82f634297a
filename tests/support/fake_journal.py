"""A socket where journald's would be, and a strict reader of its native protocol."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path


class FakeJournal:
    """Keeps what is sent to it in the kernel until somebody asks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    def entries(self) -> list[dict[str, bytes]]:
        """Every entry that arrived since the last question; a field that comes twice is a failure."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(parse_entry(self._socket.recv(2**20)))
        return found

    def fill(self) -> None:
        """Send until there is no room."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, contextlib.suppress(BlockingIOError):
            other.setblocking(False)
            other.connect(str(self.path))
            while True:
                other.send(b"MESSAGE=other\n")

    def close(self) -> None:
        """Close the socket; its file stays, as after a crash."""
        self._socket.close()


def parse_entry(datagram: bytes) -> dict[str, bytes]:
    """The fields of one datagram, in both forms of https://systemd.io/JOURNAL_NATIVE_PROTOCOL/."""
    fields: dict[str, bytes] = {}
    while datagram:
        line, _, datagram = datagram.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", datagram[:8])
            value, end, datagram = datagram[8 : 8 + length], datagram[8 + length : 9 + length], datagram[9 + length :]
            assert end == b"\n"
        assert name.decode() not in fields
        fields[name.decode()] = value
    return fields


@contextlib.contextmanager
def fake_journal(path: Path) -> Iterator[FakeJournal]:
    """A journal at `path` until the block ends."""
    journal = FakeJournal(path)
    try:
        yield journal
    finally:
        journal.close()
