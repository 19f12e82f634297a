"""Room on the disk, asked for before anything large is written: what is made must never be what fills it."""

import os
from pathlib import Path
from typing import Final

_MEBIBYTE: Final = 1024 * 1024


class NoRoomError(Exception):
    """The disk has too little room for a copy or a repair; nothing was written."""


def require_room(folder: Path, needed: int, what: str, mend: str = "") -> None:
    """Raises `NoRoomError` where fewer bytes than `needed` are free; `what` needs them, and `mend` says what to do."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < needed:
        there = f"there are {free / _MEBIBYTE:,.0f} MiB"
        raise NoRoomError(f"{what} needs {needed / _MEBIBYTE:,.0f} MiB free in {folder}, and {there}{mend}")
