"""What processes wrote to their own files while there was no journal (`shared/emergency_file.py`), read as it grows."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from multiclaw.watch.core.lines import FilePlace, Section, sections, whole_lines
from shared.config import Config
from shared.emergency_file import FILE_BYTES_MAX, FILE_NAME
from shared.journal_events import Writer

_ASIDE: Final = ".1"
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Folder:
    """Where one process keeps its state; whoever may write there speaks for `writer`, and a sidecar for `agent`."""

    path: Path
    writer: Writer
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and the user who owns the file."""

    text: bytes
    folder: Folder
    uid: int


@dataclass(frozen=True, slots=True)
class News:
    """What is new in one folder: its lines, the place after them, and whether some were put away unread."""

    lines: list[Line]
    place: FilePlace
    gap: bool


def folders_of(config: Config, own: Path) -> list[Folder]:
    """Every folder with such a file; `own` is the watcher's."""
    sidecars = [Folder(config.sidecar_state(agent), "sidecar", agent) for agent in config.agents]
    return [Folder(config.adapter_state, "adapter"), *sidecars, Folder(own, "watch")]


def read_news(folder: Folder, places: Mapping[str, FilePlace]) -> News | None:
    """What came since the place of this folder; None where nothing did. Raises `OSError` where it cannot be read."""
    last = places.get(str(folder.path))
    present, aside = _look(folder.path / FILE_NAME), _look(folder.path / (FILE_NAME + _ASIDE))
    if present is None and aside is None:
        return None
    if present == last:
        return None
    wanted, gap = sections(last, present, aside)
    lines: list[Line] = []
    place = last
    for section in wanted:
        found, place = _read(folder, section)
        lines += found
    if place is None or (place == last and not gap):
        return None
    return News(lines, place, gap)


def _look(path: Path) -> FilePlace | None:
    """The file and its size; None where there is none of ours."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return FilePlace(found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _read(folder: Folder, section: Section) -> tuple[list[Line], FilePlace]:
    """Whole lines from there on. The writer bounds its file, so that it can be read at once."""
    descriptor = os.open(folder.path / (FILE_NAME + _ASIDE * section.aside), _OPEN_FLAGS)
    try:
        found = os.fstat(descriptor)
        data = os.pread(descriptor, 2 * FILE_BYTES_MAX, section.offset)
    finally:
        os.close(descriptor)
    lines, length = whole_lines(data)
    return [Line(line, folder, found.st_uid) for line in lines], FilePlace(found.st_ino, section.offset + length)
