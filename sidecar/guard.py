"""Who may speak to a sidecar: the owner of the Unix socket on it, the bearer of its token on loopback TCP."""

import hmac
import socket
import struct
from collections.abc import Callable
from typing import Final

from shared.problems import Problem
from shared.web.routes import Call

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: unix(7), SO_PEERCRED
_ROOT: Final = 0


def guard(agent: str, token: str, owner_uid: int, *, development: bool) -> Callable[[Call], None]:
    """A guard that sets `call.agent`, or raises `unauthenticated`. `development` opens TCP without a token.

    `owner_uid` is the user whom the Unix socket belongs to: our own, or where systemd made it the agent's.
    """
    expected = token.encode("ascii")
    allowed = frozenset({owner_uid, _ROOT})

    def check(call: Call) -> None:
        connection = call.request.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            _check_peer(
                _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1], allowed
            )
        elif not development:
            _check_token(call.request.headers.get("Authorization", ""), expected)
        call.agent = agent

    return check


def _check_peer(uid: int, allowed: frozenset[int]) -> None:
    if uid not in allowed:
        raise Problem("unauthenticated", f"User {uid} may not use this socket; it serves its owner.")


def _check_token(header: str, expected: bytes) -> None:
    scheme, _, stated = header.partition(" ")
    if scheme.lower() != "bearer":
        detail = "Send `Authorization: Bearer TOKEN`; the token is in the sidecar's token file."
        raise Problem("unauthenticated", detail, field="header Authorization")
    if not hmac.compare_digest(stated.strip().encode("utf-8", "replace"), expected):
        raise Problem("unauthenticated", "The bearer token is not this sidecar's.", field="header Authorization")
