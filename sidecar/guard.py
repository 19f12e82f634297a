"""Who may speak to a sidecar: the owner of the Unix socket on it, the bearer of its token on loopback TCP."""

import hmac
import os
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from shared.problems import Problem
from shared.web.routes import Call

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: unix(7), SO_PEERCRED
_ROOT: Final = 0
_SEND: Final = ("POST", "/v1/messages")


@dataclass(frozen=True, slots=True)
class Peers:
    """Who may speak at the Unix socket: its owner, who may do everything, and where there is one a group that may send.

    The group is for the watcher, which tells an orchestrator of alarms and needs nothing else of it.
    """

    owner_uid: int
    sending_gid: int | None = None


def peers_of(socket_file: os.stat_result) -> Peers:
    """The peers that the modes of a socket's file let in, which systemd made for its agent."""
    open_to_group = socket_file.st_mode & stat.S_IRWXG == stat.S_IRGRP | stat.S_IWGRP
    return Peers(socket_file.st_uid, socket_file.st_gid if open_to_group else None)


def guard(agent: str, token: str, peers: Peers, *, development: bool) -> Callable[[Call], None]:
    """A guard that sets `call.agent`, or raises `unauthenticated`. `development` opens TCP without a token."""
    expected = token.encode("ascii")

    def check(call: Call) -> None:
        connection = call.request.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            _, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            _check_peer(peers, uid, gid, (call.route.method, call.route.path))
        elif not development:
            _check_token(call.request.headers.get("Authorization", ""), expected)
        call.agent = agent

    return check


def _check_peer(peers: Peers, uid: int, gid: int, operation: tuple[str, str]) -> None:
    if uid in {peers.owner_uid, _ROOT}:
        return
    if gid != peers.sending_gid:
        raise Problem("unauthenticated", f"User {uid} may not use this socket; it serves its owner.")
    if operation != _SEND:
        raise Problem("unauthenticated", f"Group {gid} may only send here; the rest is for the socket's owner.")


def _check_token(header: str, expected: bytes) -> None:
    scheme, _, stated = header.partition(" ")
    if scheme.lower() != "bearer":
        detail = "Send `Authorization: Bearer TOKEN`; the token is in the sidecar's token file."
        raise Problem("unauthenticated", detail, field="header Authorization")
    if not hmac.compare_digest(stated.strip().encode("utf-8", "replace"), expected):
        raise Problem("unauthenticated", "The bearer token is not this sidecar's.", field="header Authorization")
