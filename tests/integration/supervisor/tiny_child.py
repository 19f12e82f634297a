"""A child that starts in a tenth of a second: `tiny_child.py SOCKET JOURNAL [MODE]`.

It answers `GET /health` with its pid, and writes its name to JOURNAL when SIGTERM ends it. MODE `stubborn` ignores
SIGTERM; a number is the exit status it ends with at once.
"""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer


class Health(BaseHTTPRequestHandler):
    """Ready from the first moment."""

    def do_GET(self) -> None:
        """Answer any path."""
        body = b'{"pid":%d}' % os.getpid()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """A Unix socket has no address to log."""
        return "unix"


def main(socket: str, journal: str, mode: str = "") -> None:
    if mode.isdecimal():
        sys.exit(int(mode))

    def on_term(*_: object) -> None:
        with Path(journal).open("a") as file:
            file.write(Path(socket).stem + "\n")
        if mode != "stubborn":
            os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    Path(socket).unlink(missing_ok=True)
    with UnixStreamServer(socket, Health) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
