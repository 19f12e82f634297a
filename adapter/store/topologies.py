"""Versions of the topology as rows, and the reading units over them."""

import logging
import sqlite3

import orjson

from adapter.core.commands import FileTaken
from adapter.core.membership import FileState, Standing, TopologyVersion
from adapter.store.queries import SQL
from adapter.store.rows import Row
from shared.config import Membership

_log = logging.getLogger(__name__)


def topology_row(version: TopologyVersion) -> Row:
    """The row of a version."""
    return (
        version.version,
        version.base,
        version.membership.model_dump_json(),
        orjson.dumps(version.changes).decode(),
        version.source,
        version.proposed_by,
        version.reason,
        version.proposed_at_us,
        version.standing.value,
        version.decided_by,
        version.decided_at_us,
        version.note,
        version.in_file,
    )


def read_topology(connection: sqlite3.Connection, version: int) -> TopologyVersion | None:
    """One version, whatever became of it."""
    row = connection.execute(SQL["find_topology"], (version,)).fetchone()
    return None if row is None else _version(row)


def read_topologies_that_count(connection: sqlite3.Connection) -> list[TopologyVersion]:
    """The open proposals, and what was in force since the file was last known to say it, in their order."""
    in_file = connection.execute(SQL["last_topology_in_file"]).fetchone()[0] or 0
    return [_version(row) for row in connection.execute(SQL["topologies_that_count"], (in_file,))]


def read_topologies(connection: sqlite3.Connection, before: int, limit: int) -> list[TopologyVersion]:
    """Up to `limit` versions with numbers below `before`, the newest first."""
    return [_version(row) for row in connection.execute(SQL["topologies"], (before, limit))]


def _version(row: Row) -> TopologyVersion:
    return TopologyVersion(
        version=row[0],
        base=row[1],
        membership=Membership.model_validate_json(row[2]),
        changes=tuple(orjson.loads(row[3])),
        source=row[4],
        proposed_by=row[5],
        reason=row[6],
        proposed_at_us=row[7],
        standing=Standing(row[8]),
        decided_by=row[9],
        decided_at_us=row[10],
        note=row[11],
        in_file=bool(row[12]),
    )


def log_file_taken(taken: FileTaken) -> None:
    """Say what became of the file that was found at a start."""
    version = taken.version.version
    if taken.state is FileState.EDITED:
        _log.info("topology-from-file: version %d is in force, and the file says so", version)
    elif taken.state is FileState.BEHIND:
        _log.warning(
            "topology-unwritten: version %d was approved and is in force; the file says an earlier one. "
            "Write it: multiclaw topology apply",
            version,
        )
