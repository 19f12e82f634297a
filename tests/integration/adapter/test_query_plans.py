"""What a statement costs must not grow with the store: none that runs per message or per hand-over walks a table."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.store import queries, rows
from adapter.store.queries import REPAIR_SQL, SCHEMA, SQL
from shared.database import Database
from tests.support.query_plans import filled, indexes_of, own_indexes, plan, statements_in, walks

_MESSAGES = 10_000
_LIVE = 100

# Small by nature (as many rows as agents or channels have names), or read once, when the store is opened.
_WALKS = {
    "agents": "SCAN agents",
    "channels": "SCAN channels",
    "last_message_id": "SEARCH channels",
    "last_accepted_at": "SCAN messages",  # backwards along its key, for one row: see the test of it
    "live_deliveries": "SCAN deliveries USING INDEX deliveries_live",  # as long as the queues
    "floors": "SCAN retention_floors",  # two rows for each channel, at the start
    "retention_clock": "SCAN retention_clock",  # one row, at the start
    "last_topology": "SEARCH topologies",  # its newest row
    "last_topology_in_file": "SEARCH topologies USING COVERING INDEX topologies_in_file",  # likewise
    "last_seen": "SCAN last_seen",  # a row for each agent, at the start
    "announced": "SCAN announced",  # a row for each way of telling, at the start
    "tallies": "SCAN tallies",  # a row for each alarm that was raised of late
    "count_open_dead_letters": "SCAN dead_letters USING COVERING INDEX dead_letters_groups",
    "dead_letter_groups": "SCAN dead_letters USING COVERING INDEX dead_letters_groups",  # what is open, for a person
    "count_dead_letters": "SCAN dead_letters USING COVERING INDEX dead_letters_groups",  # once for each replay job
    "appointments": "SCAN scheduled USING INDEX scheduled_by_time",  # a bounded number for each agent, at the start
    "cancelled_long_ago": "SCAN scheduled USING COVERING INDEX scheduled_cancelled",  # a bounded number, to cancel one
    "replays": "SCAN replays",  # a bounded number
    "all_orphaned_deliveries": "SCAN d; SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",  # `multiclaw check`
    "orphaned_dead_letters": "SCAN l; SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",  # likewise
    "newest_message_id": "SEARCH messages",  # its last row, at the start
    "newest_sequences": "SCAN c; SEARCH m USING COVERING INDEX messages_by_sequence (channel_id=?)",  # at the start
    "insert_channel": "SCAN restores",  # a row for each restore there ever was
    # likewise; at the start, and when the members change
    "lose_before_channel": "SCAN restores EXISTS; SCAN c; SEARCH restores",
    "sequence_base": "SCAN restores",
    "newest_restore": "SCAN restores",  # its last row
    "lost_ranges": "SCAN lost_ranges",  # a row for each channel and restore
    "lose_range": "SEARCH channels USING COVERING INDEX sqlite_autoindex_channels_1 (name=?); SEARCH restores",
    "lose_ranges": "SCAN channels; SEARCH restores",  # in a restore, as are those that follow
    "jump_sequences": "SCAN channels",
    "release_leases": "SCAN deliveries USING INDEX deliveries_live",
    "renumber_topology": "SCAN topologies",
    "overtake_proposals": "SCAN topologies",
    "is_a_store": "SCAN sqlite_schema",
    "last_proof": "SCAN proofs",
    "orphaned_deliveries": "SCAN d USING INDEX deliveries_live; SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",
}

_FILL = """
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < :messages)
INSERT INTO messages (id, channel_id, sequence, sender_id, idempotency_key, content_sha256, accepted_at_us,
                      keep_forever, task_id, parent_task_id, envelope)
SELECT i, i % 10 + 1, i / 10, i % 7 + 1, randomblob(16), randomblob(32), i, 0,
       CASE i % 2 WHEN 0 THEN 't' || (i % 500) END, CASE i % 4 WHEN 0 THEN 't' || (i % 50) END, zeroblob(200)
FROM n
"""
_FILL_DELIVERIES = """
INSERT INTO deliveries (message_id, recipient_id, state, order_key, critical, handovers, failures, cycles, solo,
                        lease_until_us, not_before_us)
SELECT m.id, r.column1, CASE WHEN m.id > :messages - :live THEN 0 ELSE 2 END, 1, 0, 0, 0, 0, 0, 0, 0
FROM messages AS m CROSS JOIN (VALUES (1), (2), (3), (4)) AS r
"""
_FILL_DEAD_LETTERS = """
INSERT INTO dead_letters (message_id, recipient_id, cycles, died_at_us, reason, closure, history)
SELECT m.id, m.id % 4 + 1, 0, m.id, CASE m.id % 3 WHEN 0 THEN 'expired' ELSE 'refused' END,
       CASE WHEN m.id % 100 THEN 'resolved' END, '[]'
FROM messages AS m WHERE m.id % 5 = 0
"""
_FILL_SCHEDULED = """
INSERT INTO scheduled (number, sender_id, idempotency_key, deliver_at_us, standing, channel_id, accepted_at_us,
                       content_sha256, order_key, critical, rate_class, keep_forever, envelope)
SELECT m.id, m.sender_id, randomblob(16), m.id, CASE m.id % 2 WHEN 0 THEN 'scheduled' ELSE 'cancelled' END,
       m.channel_id, m.id, randomblob(32), 1, 0, 'normal', 0, zeroblob(200)
FROM messages AS m WHERE m.id <= 1000
"""


@pytest.fixture(params=[False, True], ids=["as it stands", "analysed"])
async def store(request, tmp_path: Path) -> Database:
    """A store of some size."""

    def fill(connection) -> None:
        values = {"messages": _MESSAGES, "live": _LIVE}
        connection.executemany(SQL["insert_agent"], [(f"agent-{n}",) for n in range(7)])
        connection.executemany(SQL["insert_channel"], [(f"channel-{n}",) for n in range(10)])
        connection.execute(_FILL, values)
        connection.execute(_FILL_DELIVERIES, values)
        connection.execute(_FILL_DEAD_LETTERS)
        connection.execute(_FILL_SCHEDULED)

    async with filled(tmp_path / "store.db", SCHEMA, fill, analysed=request.param) as database:
        yield database


def texts(name: str) -> Iterator[str]:
    """A statement as it is run: with one row, with a few, and with as many as one statement takes."""
    if "{rows}" not in SQL[name]:
        yield SQL[name]
        return
    for count in (1, 2, 64):
        yield rows._text(name, width(SQL[name]), count)


def width(text: str) -> int:
    """Values of one row: as many as columns are named of it, else as the insertion lists."""
    named = [int(number) for number in re.findall(r"\bcolumn(\d+)", text)]
    return max(named) if named else text.partition(")")[0].count(",") + 1


async def test_no_hot_statement_walks_a_table(store: Database) -> None:
    """Every step of it searches by a key or an index that names all it looks for."""
    found = await store.run(
        lambda connection: {
            text: walked
            for name in set(SQL) - set(_WALKS)
            for text in texts(name)
            if (walked := walks(plan(connection, text)))
        }
    )
    assert found == {}


async def test_what_walks_is_small_or_runs_once(store: Database) -> None:
    """The exceptions, each with the one walk it is allowed."""
    found = await store.run(lambda connection: {name: "; ".join(plan(connection, SQL[name])) for name in _WALKS})
    assert found == _WALKS


async def test_every_index_earns_its_keep(store: Database) -> None:
    """Each is looked into by some statement: one that is only written costs every send, and helps nobody."""

    def unused(connection) -> set[str]:
        used = (indexes_of(plan(connection, text)) for name in SQL for text in texts(name))
        return own_indexes(connection).difference(*used)

    assert await store.run(unused) == set()


def test_every_statement_stands_in_the_file_under_a_name_of_its_own() -> None:
    """So that none escapes this examination: no Python file of the store holds one, and no name hides another."""
    folder = Path(queries.__file__).parent
    assert list(statements_in(folder)) == []
    for loaded, name in ((SQL, "queries.sql"), (REPAIR_SQL, "repair.sql")):
        assert list(loaded) == re.findall(r"^-- name: (\w+)$", folder.joinpath(name).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["last_accepted_at", "live_deliveries", "newest_sequences", "orphaned_deliveries"])
async def test_opening_reads_what_is_live_and_no_more(store: Database, name: str) -> None:
    """A restart steps through as much as the queues hold, not through the store (promise 10)."""

    def steps(connection) -> int:
        taken = 0

        def count() -> int:
            nonlocal taken
            taken += 1
            return 0

        connection.set_progress_handler(count, 10)
        with contextlib.closing(connection.execute(SQL[name], [_LIVE] * SQL[name].count("?"))) as cursor:
            cursor.fetchall()
        connection.set_progress_handler(None, 0)
        return taken * 10

    assert await store.run(steps) < 4 * _LIVE * 50
