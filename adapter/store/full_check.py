"""The whole check of a store that nobody has open: every page, every index, and every row that others need.

It changes nothing. Beside a process that has the store open only the pages are read, past SQLite, which needs no lock
and holds up no checkpoint.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from adapter.core.page_scan import SLICE_PAGES
from adapter.store.envelopes import read_stored
from adapter.store.queries import SQL
from adapter.store.replacing import note_path
from adapter.store.startup import check_live_part
from adapter.store.witness import check_complete, check_present, read_witness
from shared.database import Damage, PageFile, describe_damage, is_damage, read_missing, read_once, refuse_copy
from shared.problems import Problem

_ROWS_AT_ONCE: Final = 500
_FAULTS_MAX: Final = 100

Progress = Callable[[str, int, int], None]
"""What is being checked, how much of it is done, and how much there is."""


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is wrong with it; of many faults the first."""

    pages: int = 0
    messages: int | None = None
    checksums: str = "on"
    faults: list[str] = field(default_factory=list)


def check_pages(path: Path, progress: Progress) -> Findings:
    """Verify each page of the file, which may be open elsewhere. Raises `OSError`."""
    pages = PageFile(path)
    try:
        findings = Findings(pages.pages, checksums=pages.checksums)
        if pages.fault is not None:
            findings.faults.append(pages.fault)
        if pages.fault is not None or pages.checksums != "on":
            return findings
        for first in range(1, findings.pages + 1, SLICE_PAGES):
            wrong = pages.wrong_pages(first, SLICE_PAGES)
            findings.faults += [f"page {number} is wrong" for number in wrong]
            progress("pages", min(first - 1 + SLICE_PAGES, findings.pages), findings.pages)
            if len(findings.faults) >= _FAULTS_MAX:
                break
    finally:
        pages.close()
    return findings


def check_everything(path: Path, progress: Progress) -> Findings:
    """Pages, log, indexes, counters and rows of a store whose lock the caller holds.

    Raises `OSError`, what SQLite raises that proves nothing, and `ConfigurationFault` for a backup in its place.
    """
    if note_path(path).exists():
        return Findings(faults=["it is being replaced, and that was interrupted; start the adapter, which finishes it"])
    refuse_copy(path)
    try:
        witness = read_witness(path)
        check_present(path, witness)
    except Damage as damage:
        return Findings(faults=[str(damage)])
    findings = check_pages(path, progress)
    if not findings.faults:
        try:
            findings.messages = asyncio.run(
                read_once(path, lambda connection: _rows(connection, path, progress, findings.faults))
            )
        except Exception as error:
            if not is_damage(error):
                raise
            findings.faults.append(describe_damage(path, error))
    return findings


def _rows(connection: sqlite3.Connection, path: Path, progress: Progress, faults: list[str]) -> int:
    connection.execute("PRAGMA application_id").fetchone()  # the first read: SQLite has read its log now
    lost = read_missing(path, connection)
    if lost is not None:
        raise Damage(lost)
    last = connection.execute(SQL["last_message_id"]).fetchone()[0] or 0
    check_complete(path, read_witness(path), last)
    check_live_part(connection)
    progress("indexes", 0, 1)
    for (line,) in connection.execute(f"PRAGMA integrity_check({_FAULTS_MAX})"):
        if line != "ok":
            faults.append(line)
    progress("indexes", 1, 1)
    faults += [
        f"message {message} has {what} and no row"
        for what, name in (("deliveries", "all_orphaned_deliveries"), ("dead letters", "orphaned_dead_letters"))
        for (message,) in connection.execute(SQL[name], (_FAULTS_MAX,))
    ]
    count = 0
    for message_id, sequence, envelope in _messages(connection):
        count += 1
        if not _is_at(envelope, sequence) and len(faults) < _FAULTS_MAX:
            faults.append(f"message {message_id} does not hold the envelope of its place, {sequence}")
        if count % _ROWS_AT_ONCE == 0:
            progress("messages", message_id, last)
    progress("messages", max(last, 1), max(last, 1))
    return count


def _messages(connection: sqlite3.Connection) -> Iterator[tuple[int, int, bytes]]:
    after = 0
    while rows := connection.execute(SQL["messages_after"], (after, _ROWS_AT_ONCE)).fetchall():
        yield from rows
        after = rows[-1][0]


def _is_at(envelope: bytes, sequence: int) -> bool:
    try:
        return read_stored(envelope).get("channel_sequence_id") == sequence
    except (Damage, Problem):
        return False
