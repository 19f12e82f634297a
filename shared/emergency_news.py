"""What is new in a file of emergencies (`emergency_file.py`), which grows, and is put aside when it is full."""

import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from shared.emergency_file import FILE_BYTES_MAX, FILE_NAME

START: Final = 0

_ASIDE: Final = ".1"
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Up to which byte a file was read; the file is told by its number, since its name goes to the next one."""

    inode: int
    offset: int


@dataclass(frozen=True, slots=True)
class Section:
    """Read this: the file that is put aside or the present one, from a byte on."""

    aside: bool
    offset: int


@dataclass(frozen=True, slots=True)
class News:
    """New lines, the owner of the file, the place after them, and whether lines were put away unread."""

    lines: list[bytes]
    uid: int
    place: FilePlace
    gap: bool


def read_news(folder: Path, last: FilePlace | None) -> News | None:
    """What came since the last place; None where nothing did. Raises `OSError` where it cannot be read."""
    present, aside = _look(folder / FILE_NAME), _look(folder / (FILE_NAME + _ASIDE))
    if present == last or (present is None and aside is None):
        return None
    wanted, gap = sections(last, present, aside)
    lines: list[bytes] = []
    place, uid = last, -1
    for section in wanted:
        found, place, uid = _read(folder, section)
        lines += found
    if place is None or (place == last and not gap):
        return None
    return News(lines, uid, place, gap)


def sections(last: FilePlace | None, present: FilePlace | None, aside: FilePlace | None) -> tuple[list[Section], bool]:
    """What is to be read, in order, and whether lines may have been missed. Offsets of the two files are their sizes.

    A file is put aside whole, in place of the one before: so the one that was read last is the present one, or the one
    aside, or it is gone, and then both are new.
    """
    everything = [Section(at_aside, START) for at_aside, file in ((True, aside), (False, present)) if file is not None]
    if last is None:
        return everything, False
    if present is not None and present.inode == last.inode:
        return [Section(aside=False, offset=last.offset if last.offset <= present.offset else START)], False
    if aside is not None and aside.inode == last.inode:
        rest = Section(aside=True, offset=min(last.offset, aside.offset))
        return [rest, *(section for section in everything if not section.aside)], False
    return everything, last.offset > START


def whole_lines(data: bytes) -> tuple[list[bytes], int]:
    """The lines that have ended, and how many bytes they take; the last one may be being written."""
    end = data.rfind(b"\n") + 1
    return [line for line in data[:end].split(b"\n") if line], end


def line_id(line: bytes) -> str:
    """What identifies a line, also where it was handed to the journal later."""
    return sha256(line).hexdigest()


def _look(path: Path) -> FilePlace | None:
    """The file and its size; None where there is none of ours."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return FilePlace(found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _read(folder: Path, section: Section) -> tuple[list[bytes], FilePlace, int]:
    """Whole lines from there on, and the owner. The writer bounds its file, so that it can be read at once."""
    descriptor = os.open(folder / (FILE_NAME + _ASIDE * section.aside), _OPEN_FLAGS)
    try:
        found = os.fstat(descriptor)
        data = os.pread(descriptor, 2 * FILE_BYTES_MAX, section.offset)
    finally:
        os.close(descriptor)
    lines, length = whole_lines(data)
    return lines, FilePlace(found.st_ino, section.offset + length), found.st_uid
