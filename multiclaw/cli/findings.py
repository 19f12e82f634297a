"""What `doctor` looks at: one function for each thing, which tells what it found in the words of who would refuse."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from adapter.contracts import load_registry
from adapter.store.replacing import note_path
from multiclaw.units import WANTED, by_systemd
from shared.config import Config, ConfigurationFault, check_socket_path
from shared.database import SQLITE_VERDICT, SQLITE_VERSION, library_checksums, refuse_copy
from shared.database.checksums import APPLICATION_ID, RESERVED_BYTES
from shared.database.header import StoreHeader, read_header
from shared.keys import KeyFault, load_keyring

_LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""What the log of each store may grow to before a checkpoint empties it; with less disk than all logs may take, a
store can fail in the middle of its work."""

_BLOCK_BYTES_MIN: Final = 4_096
"""SQLite makes room for the memory that the processes of a store share by a byte in each so many. Where blocks are
smaller, the others are holes, and a disk that is full has none to give when they are written to."""

Level = Literal["ok", "warning", "fault"]


class Finding(NamedTuple):
    """`warning`: it works, with less than it could have. `fault`: something will refuse to start or fail."""

    subject: str
    level: Level
    detail: str


def examine_library() -> Iterator[Finding]:
    """SQLite: on an unsafe one the adapter keeps to one connection, which is slower, and right."""
    yield Finding("sqlite", "ok" if SQLITE_VERDICT.safe else "warning", f"{SQLITE_VERSION} is {SQLITE_VERDICT}")
    checksums = library_checksums()
    yield Finding("page checksums", "ok" if checksums == "on" else "warning", checksums)


def examine(config: Config) -> Iterator[Finding]:
    """Everything that a configuration names."""
    yield _contracts(config)
    yield from _keys(config)
    if by_systemd(config):
        yield from _units(config)
    yield from _tokens(config)
    yield from _sockets(config)
    yield from _disk(config)
    for path in (config.adapter_store, *map(config.sidecar_store, config.agents)):
        yield _store(path)


def _contracts(config: Config) -> Finding:
    try:
        load_registry(config.paths.contracts, config.rate_classes)
    except ConfigurationFault as fault:
        return Finding("contracts", "fault", str(fault))
    return Finding("contracts", "ok", "all are well-formed")


def _keys(config: Config) -> Iterator[Finding]:
    faults = []
    for agent in config.agents:
        try:
            load_keyring(config.paths.keys, agent)
        except KeyFault as fault:
            faults.append(Finding("keys", "fault", str(fault)))
    yield from faults or [Finding("keys", "ok", f"every agent has one in {config.paths.keys}, closed to others")]


def _units(config: Config) -> Iterator[Finding]:
    """An agent that joined while everything ran has neither user nor units until they are installed."""
    faults = [
        Finding("units", "fault", f"the sidecar of {agent} is not installed: multiclaw install-units, as root")
        for agent in config.agents
        if not (Path("/") / WANTED / f"multiclaw-sidecar@{agent}.service").is_symlink()
    ]
    yield from faults or [Finding("units", "ok", "the sidecar of every agent is installed")]


def _tokens(config: Config) -> Iterator[Finding]:
    faults = []
    for path in map(config.token_file, config.agents):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0  # a sidecar makes a missing one
        if mode & 0o077:
            faults.append(Finding("tokens", "fault", f"{path} is open to others (mode {mode:04o}): chmod 600 {path}"))
    yield from faults or [Finding("tokens", "ok", "closed to others")]


def _sockets(config: Config) -> Iterator[Finding]:
    faults = []
    for path in (config.adapter_socket, *map(config.sidecar_socket, config.agents)):
        try:
            check_socket_path(path)
        except ConfigurationFault as fault:
            faults.append(Finding("sockets", "fault", str(fault)))
    yield from faults or [Finding("sockets", "ok", f"the paths in {config.paths.run} are short enough")]


def _disk(config: Config) -> Iterator[Finding]:
    folder = next(place for place in (config.paths.state, *config.paths.state.parents) if place.exists())
    free, needed = shutil.disk_usage(folder).free, _LOG_BYTES_MAX * (1 + len(config.agents))
    detail = f"{_mebibytes(free)} are free at {folder}; the logs alone may take {_mebibytes(needed)}"
    yield Finding("disk", "ok" if free >= needed else "fault", detail)
    block_bytes = os.statvfs(folder).f_bsize
    if block_bytes < _BLOCK_BYTES_MIN:
        detail = f"the file system of {folder} has blocks of {block_bytes} bytes: when it is full, SIGBUS may kill what"
        yield Finding("disk", "warning", f"{detail} has a store on it; make it with blocks of {_BLOCK_BYTES_MIN} bytes")


def _store(path: Path) -> Finding:
    try:
        header = read_header(path)
        size = _mebibytes(path.stat().st_size)
        refuse_copy(path)
    except FileNotFoundError:
        return Finding("store", "ok", f"{path} is not there yet; its process makes it")
    except OSError as error:
        return Finding("store", "fault", f"{path} cannot be read: {error.strerror}")
    except ConfigurationFault as fault:
        return Finding("store", "fault", str(fault))
    if header is None:
        return Finding("store", "fault", f"{path} is no SQLite database")
    return _described(path, header, size)


def _described(path: Path, header: StoreHeader, size: str) -> Finding:
    checked = header.reserved_bytes == RESERVED_BYTES
    if header.application_id == APPLICATION_ID and not checked:
        return Finding("store", "fault", f"{path} was made with page checksums, and its header is damaged")
    if note_path(path).exists():
        return Finding(
            "store", "warning", f"{path} is being replaced; where that was interrupted, its process finishes it"
        )
    if not header.shrinks:
        detail = f"{path} was made by an earlier version: what pruning frees in it is used again, and never given back"
        mend = f"stop its process and run: sqlite3 {path} 'PRAGMA auto_vacuum=INCREMENTAL; VACUUM'"
        return Finding("store", "warning", f"{detail}; to change that, {mend}")
    return Finding(
        "store",
        "ok",
        f"{path}, {size} in pages of {header.page_bytes} bytes{', each with its checksum' if checked else ''}",
    )


def _mebibytes(count: int) -> str:
    return f"{count / 1024 / 1024:,.1f} MiB"
