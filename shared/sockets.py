"""Unix sockets that are private from birth, never stolen, and never removed when they are not ours."""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from shared.config import ConfigurationFault, check_socket_path

_PROBE_SECONDS = 1.0


def listen_unix(path: Path) -> socket.socket:
    """A listening socket at `path`, mode 0600.

    A stale socket file is replaced; a live one, or anything that is not a socket, raises `ConfigurationFault` and is
    left as it is. The caller holds the lock of its store, so two starters of one deployment do not race here.
    """
    check_socket_path(path)
    _clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the file is born 0600: there is no moment at which others could connect
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise ConfigurationFault(f"cannot listen at {path}: {error.strerror}") from error
    finally:
        os.umask(before)
    listener.listen(1024)
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def unix_door(path: Path, passed: socket.socket | None = None) -> Iterator[socket.socket]:
    """A listening socket at `path`: the one that systemd passed, or else one of our own.

    The file of our own goes with the block; systemd's stays, and what connects meanwhile waits in it. The server that
    gets the socket closes it. Raises as `listen_unix` does.
    """
    if passed is not None:
        yield passed
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    listener = listen_unix(path)
    inode = path.lstat().st_ino
    try:
        yield listener
    finally:
        remove_unix(path, inode)


def remove_unix(path: Path, listener_inode: int) -> None:
    """Remove our socket file at shutdown, unless something else stands there by now, or the disk takes no changes: the
    next start replaces it."""
    with contextlib.suppress(OSError):
        if path.lstat().st_ino == listener_inode:
            path.unlink()


def _clear_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationFault(f"cannot listen at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise ConfigurationFault(f"{path} is not a socket; move it away, it will not be deleted")
    if _is_live(path):
        raise ConfigurationFault(f"another process serves {path}; stop it first, or use another folder")
    path.unlink()


def _is_live(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True
