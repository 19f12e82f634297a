"""Dead letters as rows, and the reading units over them: pages in commit order, one in full, and groups."""

import sqlite3
from dataclasses import dataclass
from typing import Final

import orjson

from adapter.core.dead_letters import DeadLetter, Filter, history_document, read_history
from adapter.store.envelopes import read_stored, stored_envelope
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.rows import Row


@dataclass(frozen=True, slots=True)
class Buried:
    """A dead letter, and the message it is about."""

    letter: DeadLetter
    channel: str
    sequence: int
    sender: str
    task_id: str | None
    type: str


@dataclass(frozen=True, slots=True)
class Group:
    """Open dead letters of one recipient that died for one reason. Times are wall microseconds."""

    recipient: str
    reason: str
    count: int
    oldest_us: int
    newest_us: int


Position = tuple[int, str]
"""The message and recipient of the last one of a page."""


_OF_THE_LETTER: Final = 9
"""How many columns at the start of a row are the record's; the message's follow."""


def letter_row(letter: DeadLetter, names: Names) -> Row:
    """The row of a record."""
    return (
        letter.message_id,
        names.agent_ids[letter.recipient],
        letter.cycles,
        letter.last.died_at_us,
        letter.last.reason,
        letter.closure,
        letter.closed_at_us,
        letter.note,
        orjson.dumps(history_document(letter.history)).decode(),
        None if letter.replaced_by is None else names.channel_ids[letter.replaced_by[0]],
        None if letter.replaced_by is None else letter.replaced_by[1],
    )


def read_dead_letter(row: Row, names: Names) -> DeadLetter:
    """The record that starts a row."""
    message_id, recipient_id, cycles, closure, closed_at_us, note, history, channel_id, sequence = row[:_OF_THE_LETTER]
    recipient = names.agent_names[recipient_id]
    cycle_list = read_history(orjson.loads(history))
    replaced_by = None if channel_id is None else (names.channel_names[channel_id], sequence)
    return DeadLetter(message_id, recipient, cycles, cycle_list, closure, closed_at_us, note, replaced_by)


def read_open(
    connection: sqlite3.Connection, names: Names, wanted: Filter, after: Position | None, limit: int
) -> list[Buried]:
    """Up to `limit` open dead letters after a position, in commit order: so a replay of pages keeps the order."""
    message_id, recipient = (0, "") if after is None else after
    ids = names.agent_ids
    wanted_id = None if wanted.recipient is None else ids.get(wanted.recipient, 0)
    given = (message_id, ids.get(recipient, 0), wanted_id, wanted.reason, wanted.before_us, limit)
    rows = connection.execute(SQL["open_dead_letters"], given)
    return [_buried(row, names) for row in rows]


def read_letter(
    connection: sqlite3.Connection, names: Names, recipient: str, channel: str, sequence: int
) -> tuple[Buried, bytes] | None:
    """The record of a recipient's delivery of a message, open or closed, and the envelope as it is stored."""
    place = names.channel_ids.get(channel), sequence, names.agent_ids.get(recipient)
    row = connection.execute(SQL["dead_letter_at"], place).fetchone()
    return None if row is None else (_buried(row, names), stored_envelope(row[-1]))


def _buried(row: Row, names: Names) -> Buried:
    channel_id, sequence, sender_id, task_id, envelope = row[_OF_THE_LETTER:]
    letter, kind = read_dead_letter(row, names), read_stored(envelope)["type"]
    return Buried(letter, names.channel_names[channel_id], sequence, names.agent_names[sender_id], task_id, kind)


def read_groups(connection: sqlite3.Connection, names: Names) -> list[Group]:
    """Open dead letters by recipient and reason."""
    rows = connection.execute(SQL["dead_letter_groups"])
    groups = [Group(names.agent_names[agent_id], *rest) for agent_id, *rest in rows]
    return sorted(groups, key=lambda group: (group.recipient, group.reason))
