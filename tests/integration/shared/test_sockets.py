"""Unix sockets against the real kernel: replaced when stale, never stolen, never deleted when not ours, always 0600."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shared.config import ConfigurationFault
from shared.sockets import listen_unix, remove_unix

WATCHER = """
import os, sys
folder = os.fsencode(sys.argv[1])
modes = set()
print("watching", flush=True)
while not os.path.exists(folder + b"/done"):
    for n in range(8):
        try:
            modes.add(os.lstat(folder + b"/%d.sock" % n).st_mode & 0o777)
        except FileNotFoundError:
            pass
print(sorted(modes))
"""


def connects(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(os.fspath(path))
        except OSError:
            return False
    return True


def leave_stale(path: Path) -> None:
    """What a killed process leaves behind: a socket file that nobody serves."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))


def test_a_stale_socket_is_replaced(short_folder: Path) -> None:
    """A socket file without a listener does not stand in the way of a restart."""
    path = short_folder / "a.sock"
    leave_stale(path)
    with listen_unix(path):
        assert connects(path)


def test_a_live_socket_is_not_stolen(short_folder: Path) -> None:
    """A second start is refused, and the first goes on serving the very same socket."""
    path = short_folder / "a.sock"
    with listen_unix(path) as first:
        inode = path.lstat().st_ino
        with pytest.raises(ConfigurationFault, match="another process serves"):
            listen_unix(path)
        assert path.lstat().st_ino == inode
        first.setblocking(True)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.fspath(path))
            first.accept()[0].close()


def test_a_listener_with_a_full_backlog_is_live(short_folder: Path) -> None:
    """A server too busy to accept is alive: its socket is not taken for stale."""
    path = short_folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(os.fspath(path))
        busy.listen(0)
        waiting.connect(os.fspath(path))
        with pytest.raises(ConfigurationFault, match="another process serves"):
            listen_unix(path)
        assert path.is_socket()


def test_nothing_else_is_ever_deleted(short_folder: Path) -> None:
    """A file, a folder and a link (dangling, or to a stale socket) at the path are refused and left as they are."""
    (short_folder / "file").write_text("mine")
    (short_folder / "folder").mkdir()
    leave_stale(short_folder / "target")
    (short_folder / "link").symlink_to(short_folder / "target")
    (short_folder / "dangling").symlink_to(short_folder / "nowhere")
    for name in ("file", "folder", "link", "dangling"):
        with pytest.raises(ConfigurationFault, match="not a socket"):
            listen_unix(short_folder / name)
    assert (short_folder / "file").read_text() == "mine"
    assert (short_folder / "folder").is_dir()
    assert (short_folder / "link").is_symlink()
    assert (short_folder / "dangling").is_symlink()
    assert (short_folder / "target").is_socket()
    assert not (short_folder / "nowhere").exists()


def test_folders_that_cannot_hold_a_socket_are_faults(short_folder: Path) -> None:
    """A missing folder, or a file where the folder should be, is a configuration fault that names the path."""
    (short_folder / "file").write_text("")
    for path in (short_folder / "missing" / "a.sock", short_folder / "file" / "a.sock"):
        with pytest.raises(ConfigurationFault, match="cannot listen at"):
            listen_unix(path)


def test_the_length_limit_is_that_of_the_kernel(short_folder: Path) -> None:
    """A path of 107 bytes works, one of 108 is refused before anything is bound."""
    room = 107 - len(os.fsencode(short_folder)) - 1
    with listen_unix(short_folder / ("a" * room)):
        assert connects(short_folder / ("a" * room))
    with pytest.raises(ConfigurationFault, match="108 bytes"):
        listen_unix(short_folder / ("a" * (room + 1)))
    accented = "é" * (room // 2)
    with listen_unix(short_folder / accented):
        assert (short_folder / accented).is_socket()


def test_the_mode_is_0600_at_every_instant(short_folder: Path) -> None:
    """Another process that looks all the time, under umask 000, never sees a wider mode."""
    watcher = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", WATCHER, os.fspath(short_folder)], stdout=subprocess.PIPE, text=True
    )
    before = os.umask(0)
    try:
        assert watcher.stdout
        assert watcher.stdout.readline() == "watching\n"
        for _ in range(200):
            for number in range(8):
                path = short_folder / f"{number}.sock"
                with listen_unix(path):
                    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
                path.unlink()
        assert os.umask(0) == 0, "the umask was not put back"
        with listen_unix(short_folder / "0.sock"):
            (short_folder / "done").write_text("")
            assert watcher.communicate(timeout=30)[0] == f"[{0o600}]\n"
    finally:
        os.umask(before)
        watcher.kill()
        watcher.wait()


def test_only_our_own_socket_is_removed(short_folder: Path) -> None:
    """At shutdown a socket that somebody else has put there meanwhile stays; a missing one is no fault."""
    path = short_folder / "a.sock"
    with listen_unix(path):
        ours = path.lstat().st_ino
    path.rename(short_folder / "moved")
    with listen_unix(path):
        remove_unix(path, ours)
        assert connects(path)
        remove_unix(path, path.lstat().st_ino)
    assert not path.exists()
    remove_unix(path, ours)
