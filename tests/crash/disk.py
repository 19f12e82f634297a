"""What a disk may hold when the power fails: all that was synced, and of the rest nothing, everything, or any part.

A file's bytes are safe once the file was synced, by whichever of its names; a name once the folder was in which it
stands, and that folder's own name. Writes that were not synced may have reached the disk whole, in part by sectors, in
any order, or not at all; so may changes of names, each by itself whole or not. A sync that fails has dropped what it
should have written: the system serves it from memory until the power fails, and no later sync writes it
(https://wiki.postgresql.org/wiki/Fsync_Errors).
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.crash.recording import Operation, Record

SECTOR_BYTES = 512
BLOCK_BYTES = 4096

MODES = ("dropped", "kept", "random", "torn 512", "torn 4096")


class Image(NamedTuple):
    """Files by path, folders, and further names of files, each with the first."""

    files: dict[str, bytes]
    folders: list[str]
    links: dict[str, str]

    def lay_out(self, folder: Path) -> None:
        """Make it all below a folder."""
        for path in sorted({*self.folders, *map(_folder_of, (*self.files, *self.links))}):
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (folder / path).write_bytes(content)
        for path, first in self.links.items():
            os.link(folder / first, folder / path)


@dataclass(eq=False, slots=True)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[Record] = field(default_factory=list)


_Names = dict[str, _File | None]
"""What stands under each path; None for a folder."""


class _Move(NamedTuple):
    """A change of names: one that is gone, one that is there, or both at once."""

    gone: str | None
    made: str | None
    node: _File | None = None

    @property
    def folder(self) -> str:
        return _folder_of(self.made or self.gone or "")

    def make(self, names: _Names) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.made is not None:
            names[self.made] = self.node


class Disk:
    """Follows a recording, and gives the images that a cut would leave."""

    def __init__(self) -> None:
        self._names: _Names = {}
        self._safe_names: _Names = {}
        self._moves: list[_Move] = []
        self._folders: set[str] = set()
        self._has_moved = False

    def apply(self, record: Record) -> None:
        """One more operation has been issued."""
        move = self._move(record)
        self._has_moved = move is not None
        if move is not None:
            move.make(self._names)
            self._moves.append(move)
        elif record.operation in {Operation.SYNC, Operation.SYNC_FAILED}:
            self._sync(record)
        elif record.operation in {Operation.WRITE, Operation.TRUNCATE}:
            self._file(record.path).pending.append(record)

    def _move(self, record: Record) -> _Move | None:
        path, operation = record.path, record.operation
        if operation is Operation.CREATE:
            return _Move(None, path, _File())
        if operation is Operation.MAKE_FOLDER:
            self._folders.add(path)
            return _Move(None, path)
        if operation in {Operation.UNLINK, Operation.REMOVE_FOLDER}:
            return _Move(path, None)
        if operation is Operation.LINK:
            return _Move(None, record.data.decode(), self._file(path))
        if operation is Operation.RENAME and self._file(path) is not self._names.get(record.data.decode()):
            return _Move(path, record.data.decode(), self._file(path))
        return None  # rename(2) does nothing where both names are of one file

    def _file(self, path: str) -> _File:
        file = self._names[path]
        assert file is not None, f"{path} is a folder"
        return file

    def _sync(self, record: Record) -> None:
        file = self._names.get(record.path)
        if file is not None and record.operation is Operation.SYNC_FAILED:
            file.pending.clear()
        elif file is not None:
            _settle(file)
        elif record.operation is Operation.SYNC:
            for move in self._moves:
                if move.folder == record.path:
                    move.make(self._safe_names)
            self._moves = [move for move in self._moves if move.folder != record.path]

    def images(self, rng: random.Random) -> Iterator[tuple[str, Image]]:
        """What may be found, by mode; images that are the same come once. After a change of names, also what is found
        where all of those that are not safe have arrived but one."""
        unsynced = bool(self._moves) or any(file.pending for file in self._names.values() if file is not None)
        for mode in MODES if unsynced else MODES[:1]:
            yield mode, self._image(mode, self._arrived(mode, rng), rng)
        for late in self._moves if self._has_moved else ():
            moves = [move for move in self._moves if move is not late]
            yield f"kept but for {late.made or late.gone}", self._image("kept", moves, rng)

    def _image(self, mode: str, moves: Iterable[_Move], rng: random.Random) -> Image:
        keeps: dict[str, Callable[[bytes], Iterator[tuple[int, bytes]]]] = {
            "dropped": lambda _: iter(()),
            "kept": lambda data: iter([(0, data)]),
            "random": lambda data: iter([(0, data)] if rng.random() < 0.5 else []),
            "torn 512": lambda data: _torn(data, SECTOR_BYTES, rng),
            "torn 4096": lambda data: _torn(data, BLOCK_BYTES, rng),
        }
        names = dict(self._safe_names)
        for move in moves:
            move.make(names)
        image, first = Image({}, [], {}), dict[_File, str]()
        for path, node in names.items():
            if not self._is_reached(path, names):
                continue
            if node is None:
                image.folders.append(path)
            elif node in first:
                image.links[path] = first[node]
            else:
                first[node] = path
                image.files[path] = bytes(_content(node, keeps[mode], rng, mode))
        return image

    def _arrived(self, mode: str, rng: random.Random) -> Sequence[_Move]:
        """Those of the changes of names that are not safe."""
        if mode == "dropped":
            return ()
        if mode == "kept" or not self._moves:
            return self._moves
        share = rng.choice((0.0, 0.5, 1.0))
        return [move for move in self._moves if rng.random() < share]

    def _is_reached(self, path: str, names: _Names) -> bool:
        """Whether each folder above it that was made since has its name."""
        above = _folder_of(path)
        return above == "." or ((above in names or above not in self._folders) and self._is_reached(above, names))


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _settle(file: _File) -> None:
    for record in file.pending:
        _put(file.synced, record, [(0, record.data)])
    file.pending.clear()


def _content(
    file: _File, keep: Callable[[bytes], Iterator[tuple[int, bytes]]], rng: random.Random, mode: str
) -> bytearray:
    content = bytearray(file.synced)
    for record in file.pending:
        if record.operation is Operation.WRITE:
            _put(content, record, list(keep(record.data)))
        elif mode == "kept" or (mode != "dropped" and rng.random() < 0.5):
            _put(content, record, [])
    return content


def _torn(data: bytes, size: int, rng: random.Random) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(data), size):
        if rng.random() < 0.5:
            yield start, data[start : start + size]


def _put(content: bytearray, record: Record, parts: list[tuple[int, bytes]]) -> None:
    if record.operation is Operation.TRUNCATE:
        del content[record.offset :]
        content.extend(bytes(record.offset - len(content)))
        return
    for start, part in parts:
        at = record.offset + start
        if len(content) < at:
            content.extend(bytes(at - len(content)))
        content[at : at + len(part)] = part
