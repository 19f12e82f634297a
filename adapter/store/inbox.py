"""Reading the Human Governor's inbox: what no human has read, or all that is retained; and what is to be announced."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from adapter.core.delivery import State
from adapter.store.envelopes import stored_envelope
from adapter.store.names import Names
from adapter.store.queries import SQL
from shared.limits import INTEGER_MAX
from shared.names import GOVERNOR, direct_channel

_CHANNEL: Final = direct_channel(GOVERNOR)
_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one answer, as for a range of a channel."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One message of the inbox: its place, how far it got with the humans, and its bytes."""

    position: int
    sequence: int
    state: State
    envelope: bytes


def read_inbox(connection: sqlite3.Connection, names: Names, after: int, limit: int, *, unread: bool) -> list[Letter]:
    """Up to `limit` messages behind a position, in order; fewer where they are large."""
    statement, key = ("inbox_unread", names.agent_ids[GOVERNOR]) if unread else ("inbox", names.channel_ids[_CHANNEL])
    given = (key, after, limit) if unread else (names.agent_ids[GOVERNOR], key, after, limit)
    page: list[Letter] = []
    size = 0
    for position, sequence, state, column in connection.execute(SQL[statement], given):
        letter = Letter(position, sequence, State(state), stored_envelope(column))
        size += len(letter.envelope)
        if page and size > _PAGE_BYTES_MAX:
            break
        page.append(letter)
    return page


def find_letters(connection: sqlite3.Connection, names: Names, sequences: list[int]) -> dict[int, int]:
    """The numbers in the store of those of these messages that there are, by sequence."""
    channel_id = names.channel_ids[_CHANNEL]
    found = ((each, connection.execute(SQL["message_at"], (channel_id, each)).fetchone()) for each in sequences)
    return {sequence: row[0] for sequence, row in found if row is not None}


def read_newer(connection: sqlite3.Connection, names: Names, after: int, limit: int) -> list[tuple[int, bytes]]:
    """(sequence, envelope) of the next messages behind a sequence, whoever has read them."""
    given = (names.channel_ids[_CHANNEL], after + 1, INTEGER_MAX, limit)
    return [(sequence, stored_envelope(envelope)) for sequence, envelope in connection.execute(SQL["range"], given)]


def read_start(connection: sqlite3.Connection, names: Names) -> int:
    """The sequence behind which the messages are that no human has read."""
    unread = read_inbox(connection, names, 0, 1, unread=True)
    if unread:
        return unread[0].sequence - 1
    sequences: dict[str, int] = {name: last for _, name, last in connection.execute(SQL["channels"])}
    return sequences[_CHANNEL]
