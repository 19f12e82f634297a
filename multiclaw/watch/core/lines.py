"""Where reading goes on in a file that grows, and is put aside under another name when it is full."""

from dataclasses import dataclass
from typing import Final

START: Final = 0


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
