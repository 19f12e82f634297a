"""The outbox as it is shown: pages of what waits and what was refused, and one of them whole.

Messages are read where they lie: a page of large ones would else take as much memory as the whole outbox. One whose
end is gone is no JSON, and has neither an addressee nor a type.
"""

import sqlite3
from typing import Any, NamedTuple

from shared.database import Damage
from sidecar.store.lost_pages import CUT, stored_json, stored_time
from sidecar.store.store import Store

# X'7D' is the brace that ends an envelope
_WAITING_PAGE = (
    "SELECT id, idempotency_key, "
    "CASE substr(envelope, -1) WHEN X'7D' THEN json_extract(CAST(envelope AS TEXT), '$.to') END, "
    "CASE substr(envelope, -1) WHEN X'7D' THEN json_extract(CAST(envelope AS TEXT), '$.type') END, "
    "length(envelope), queued_at_us FROM outbox WHERE id > ? ORDER BY id LIMIT ?"
)
_REFUSED_PAGE = (
    "SELECT rowid, idempotency_key, "
    "CASE substr(envelope, -1) WHEN X'7D' THEN json_extract(CAST(envelope AS TEXT), '$.to') END, "
    "CASE substr(envelope, -1) WHEN X'7D' THEN json_extract(CAST(envelope AS TEXT), '$.type') END, "
    "length(envelope), refused_at_us, problem FROM outbox_dead WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
_BEFORE = "SELECT count(*) FROM outbox WHERE id <= ?"
_ONE_WAITING = "SELECT id, envelope, queued_at_us FROM outbox WHERE idempotency_key = ?"
_ONE_REFUSED = "SELECT rowid, envelope, refused_at_us, problem FROM outbox_dead WHERE idempotency_key = ?"


class Waiting(NamedTuple):
    """A waiting send without its content."""

    id: int
    key: str
    to: str
    type: str
    size: int
    queued_at_us: int


class Refused(NamedTuple):
    """A refused send without its content; the problem is encoded."""

    id: int
    key: str
    to: str
    type: str
    size: int
    refused_at_us: int
    problem: bytes


class Whole(NamedTuple):
    """One send with its encoded message; `position` is None for a refused one, and `problem` for a waiting one."""

    id: int
    envelope: bytes
    at_us: int
    position: int | None
    problem: bytes | None


async def waiting_page(store: Store, after: int, count: int) -> tuple[int, list[Waiting]]:
    """Up to `count` behind the id `after`, and the position of the first of them."""

    def unit(connection: sqlite3.Connection) -> tuple[int, list[Waiting]]:
        (before,) = connection.execute(_BEFORE, (after,)).fetchone()
        return before + 1, [Waiting(*_told(row)) for row in connection.execute(_WAITING_PAGE, (after, count))]

    return await store.read(unit)


async def refused_page(store: Store, after: int, count: int) -> list[Refused]:
    """Up to `count` behind the id `after`."""
    return await store.read(
        lambda connection: [Refused(*_told(row)) for row in connection.execute(_REFUSED_PAGE, (after, count))]
    )


async def one(store: Store, key: str) -> Whole | None:
    """The send of that key, wherever it is."""

    def unit(connection: sqlite3.Connection) -> Whole | None:
        waiting = connection.execute(_ONE_WAITING, (key,)).fetchone()
        if waiting is not None:
            (position,) = connection.execute(_BEFORE, (waiting[0],)).fetchone()
            entry_id, envelope, queued_at_us = waiting
            return Whole(entry_id, stored_json(envelope, queued_at_us), queued_at_us, position, None)
        refused = connection.execute(_ONE_REFUSED, (key,)).fetchone()
        if refused is None:
            return None
        entry_id, envelope, refused_at_us, problem = refused
        return Whole(entry_id, stored_json(envelope, refused_at_us), refused_at_us, None, problem)

    return await store.read(unit)


def _told(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row of a page; raises `Damage` where its end is gone."""
    _, _, to, _, _, at_us, *_ = row
    if to is None:
        raise Damage(CUT)
    stored_time(at_us)
    return row
