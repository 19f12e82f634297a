"""What a disk may hold when the power fails: all that was synced, and of the rest nothing, everything, or any part.

A file's bytes are safe once the file was synced, its name once its folder was. Writes that were not synced may have
reached the disk whole, in part by sectors, in any order, or not at all. A sync that fails has dropped what it should
have written: the system serves it from memory until the power fails, and no later sync writes it
(https://wiki.postgresql.org/wiki/Fsync_Errors).
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.crash.recording import Operation, Record

Image = dict[str, bytes]
"""Files by path."""

SECTOR_BYTES = 512
BLOCK_BYTES = 4096

MODES = ("dropped", "kept", "random", "torn 512", "torn 4096")


@dataclass(eq=False, slots=True)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[Record] = field(default_factory=list)


class Disk:
    """Follows a recording, and gives the images that a cut would leave."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._safe_names: dict[str, _File] = {}
        self._moves: list[Record] = []

    def apply(self, record: Record) -> None:
        """One more operation has been issued."""
        if record.operation is Operation.CREATE:
            self._names[record.path] = _File()
            self._moves.append(record)
        elif record.operation is Operation.UNLINK:
            self._names.pop(record.path, None)
            self._moves.append(record)
        elif record.operation is Operation.RENAME:
            self._names[record.data.decode()] = self._names.pop(record.path)
            self._moves.append(record)
        elif record.operation is Operation.SYNC_FAILED:
            if record.path in self._names:
                self._names[record.path].pending.clear()
        elif record.operation is not Operation.SYNC:
            self._names[record.path].pending.append(record)
        elif record.path in self._names:
            _settle(self._names[record.path])
        else:  # a folder
            self._safe_names = dict(self._names)
            self._moves.clear()

    def images(self, rng: random.Random) -> Iterator[tuple[str, Image]]:
        """What may be found, by mode; images that are the same come once."""
        unsynced = bool(self._moves) or any(file.pending for file in self._names.values())
        for mode in MODES if unsynced else MODES[:1]:
            yield mode, self._image(mode, rng)

    def _image(self, mode: str, rng: random.Random) -> Image:
        names = self._safe_names if mode == "dropped" else self._names
        if mode in ("random", "torn 512", "torn 4096") and self._moves and rng.random() < 0.5:
            names = self._safe_names
        keeps: dict[str, Callable[[bytes], Iterator[tuple[int, bytes]]]] = {
            "dropped": lambda _: iter(()),
            "kept": lambda data: iter([(0, data)]),
            "random": lambda data: iter([(0, data)] if rng.random() < 0.5 else []),
            "torn 512": lambda data: _torn(data, SECTOR_BYTES, rng),
            "torn 4096": lambda data: _torn(data, BLOCK_BYTES, rng),
        }
        return {path: bytes(_content(file, keeps[mode], rng, mode)) for path, file in names.items()}


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
