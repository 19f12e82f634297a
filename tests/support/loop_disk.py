"""A file system of its own in a file, that can be broken by the kernel and mended by `fsck` (ext4 on a loop device)."""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Self

_TOOLS = ("mkfs.ext4", "fsck.ext4", "mount", "umount", "losetup", "findmnt", "unshare")
_MIB = 1 << 20
_DISK_BYTES = 96 * _MIB
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN of linux/ext4.h
_NO_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH: what is not synced is gone, as in a power cut
_BLOCK_BYTES = 4096  # as on every disk of more than 512 MB; SQLite relies on it for its -shm when the disk is full
_SECONDS_MAX = 60
_CORRECTED = 1  # exit status of fsck
_NOT_MOUNTED = 32  # and of umount


def why_not() -> str | None:
    """Why there can be no such disk here, in words for a skipped test; None where there can be."""
    if os.geteuid() != 0:
        return "a file system of its own needs root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"a file system of its own needs {', '.join(missing)}: apt install e2fsprogs mount"
    for command in (("losetup", "-f"), ("unshare", "--mount", "true")):  # a device, and the right to mount it
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=_SECONDS_MAX)  # noqa: S603 - the system's own tools
        if done.returncode:
            return f"there can be no file system of its own here: {done.stderr.strip()}"
    return None


class LoopDisk:
    """Mounted at a folder for a block. Used with `with`: at the end it is unmounted, whoever still has files open."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        self._folder = folder
        self._ballast = folder / "ballast"
        with image.open("wb") as file:
            file.truncate(_DISK_BYTES)
        _run("mkfs.ext4", "-q", "-F", "-b", str(_BLOCK_BYTES), str(image))

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self._folder), statuses=(0, _NOT_MOUNTED))

    def mount(self) -> None:
        """Put it in place."""
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self._folder))

    def mend(self) -> None:
        """Take it away, have it checked and repaired, and put it back. Nobody may have a file of it open."""
        _run("umount", str(self._folder))
        _run("fsck.ext4", "-y", str(self._image), statuses=(0, _CORRECTED))
        self.mount()

    def find_an_error(self) -> None:
        """The kernel finds the file system inconsistent, and from now on lets nobody write to it."""
        device = self._device()
        Path("/sys/fs/ext4", device, "trigger_fs_error").write_text("1", encoding="ascii")

    def shut_down(self) -> None:
        """The device is gone: nothing can be written, and what was not synced is lost."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("=I", _NO_FLUSH))
        finally:
            os.close(descriptor)

    def fill(self) -> None:
        """Take all room that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (_MIB, _BLOCK_BYTES):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
                        os.fsync(file.fileno())

    def make_room(self) -> None:
        """Give it back."""
        self._ballast.unlink()

    def _device(self) -> str:
        source = _run("findmnt", "--noheadings", "--output", "SOURCE", str(self._folder)).strip()
        return Path(source).name


def _run(*command: str, statuses: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=_SECONDS_MAX)  # noqa: S603 - the system's own tools
    if done.returncode not in statuses:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout
