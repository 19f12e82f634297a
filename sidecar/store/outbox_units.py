"""What can happen to the outbox, each as one closed unit of the store; a key is in at most one of both its tables."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import orjson

from shared.envelope import content_sha256
from shared.limits import BATCH_MESSAGES_MAX
from shared.problems import Problem
from shared.strict_json import encode
from sidecar.core.drafts import Draft, count_to_send
from sidecar.core.link_outcome import Outcome, Verdict, refused
from sidecar.core.outbox_bounds import OutboxBounds
from sidecar.store.lost_pages import stored_json

_FULL_RETRY_SECONDS: Final = 5.0

_FIND = "SELECT id, content_sha256 FROM outbox WHERE idempotency_key = ?"
_DEPTH = "SELECT count(*) FROM outbox"
_OLDEST = "SELECT queued_at_us FROM outbox ORDER BY id LIMIT 1"
_POSITION = "SELECT count(*) FROM outbox WHERE id <= ?"
_INSERT = "INSERT INTO outbox (idempotency_key, content_sha256, envelope, queued_at_us) VALUES (?, ?, ?, ?)"
_SIZES = "SELECT length(envelope) FROM outbox ORDER BY id LIMIT ?"
_HEAD = "SELECT id, idempotency_key, envelope, queued_at_us FROM outbox ORDER BY id LIMIT ?"
_DELETE = "DELETE FROM outbox WHERE id = ?"
_BURY = (
    "INSERT OR REPLACE INTO outbox_dead (idempotency_key, envelope, problem, refused_at_us) "
    "SELECT idempotency_key, envelope, ?, ? FROM outbox WHERE id = ?"
)
_DEAD = "SELECT count(*) FROM outbox_dead"
_FIND_DEAD = "SELECT envelope, refused_at_us FROM outbox_dead WHERE idempotency_key = ?"
_FORGET_DEAD = "DELETE FROM outbox_dead WHERE idempotency_key = ?"
_WAITING = "SELECT id, envelope, queued_at_us FROM outbox WHERE idempotency_key = ?"


@dataclass(frozen=True, slots=True)
class Entry:
    """A waiting send."""

    id: int
    draft: Draft
    queued_at_us: int


class Levels(NamedTuple):
    """How many wait, how many were refused for good, and when the first that waits was queued."""

    depth: int = 0
    dead: int = 0
    oldest_us: int | None = None


class Removed(NamedTuple):
    """What somebody threw away, and out of which table."""

    was: Literal["waiting", "dead"]
    envelope: bytes


def levels(connection: sqlite3.Connection) -> Levels:
    """As they are now."""
    oldest = connection.execute(_OLDEST).fetchone()
    return Levels(_count(connection, _DEPTH), _count(connection, _DEAD), oldest[0] if oldest else None)


def read_head(connection: sqlite3.Connection, count_max: int) -> list[Entry]:
    """The oldest entries that fit one batch, `count_max` at most."""
    sizes = [size for (size,) in connection.execute(_SIZES, (min(count_max, BATCH_MESSAGES_MAX),))]
    rows = connection.execute(_HEAD, (count_to_send(sizes),)).fetchall()
    return [_entry(*row) for row in rows]


def insert(
    connection: sqlite3.Connection, draft: Draft, digest: bytes, now_us: int, bounds: OutboxBounds, *, critical: bool
) -> Outcome:
    """Put a send behind all others: 202, or why not. One that was refused earlier under its key is taken up again."""
    found = connection.execute(_FIND, (draft.key,)).fetchone()
    if found:
        return _again(connection, draft, found, digest)
    dead = connection.execute(_FIND_DEAD, (draft.key,)).fetchone()
    if dead and content_sha256(orjson.loads(stored_json(*dead))) != digest:
        return _conflict(draft.key, "was refused and is kept; drop that, or use another key")
    depth = _count(connection, _DEPTH)
    if not bounds.admits(depth, critical=critical):
        return refused(_full(depth, bounds, critical=critical))
    connection.execute(_INSERT, (draft.key, digest, draft.encoded, now_us))
    connection.execute(_FORGET_DEAD, (draft.key,))
    return _queued(draft.key, depth + 1)


def settle(connection: sqlite3.Connection, done: Iterable[int], dead: Sequence[tuple[int, bytes]], now_us: int) -> None:
    """Forget the entries that the adapter has, and set aside those it refused for good, each with its problem."""
    connection.executemany(_BURY, [(problem, now_us, entry_id) for entry_id, problem in dead])
    connection.executemany(_DELETE, [(entry_id,) for entry_id in (*done, *(entry_id for entry_id, _ in dead))])


def resend(
    connection: sqlite3.Connection,
    key: str,
    new_key: str | None,
    now_us: int,
    bounds: OutboxBounds,
    is_critical: Callable[[str], bool],
) -> Outcome:
    """Put a refused send behind all that wait, under its own key or a new one. Asked twice, it is one entry."""
    found = connection.execute(_FIND_DEAD, (key,)).fetchone()
    if found is None:
        waiting = connection.execute(_FIND, (new_key or key,)).fetchone()
        return refused(_unknown(key)) if waiting is None else _queued(new_key or key, _position(connection, waiting[0]))
    encoded = stored_json(*found)
    envelope = orjson.loads(encoded)
    draft = Draft(key, envelope, encoded)
    if new_key is not None:
        envelope["idempotency_key"] = new_key
        draft = replace(draft, key=new_key, encoded=encode(envelope))
    digest = content_sha256(envelope)
    outcome = insert(connection, draft, digest, now_us, bounds, critical=is_critical(envelope["type"]))
    if outcome.verdict is Verdict.ACCEPTED:
        connection.execute(_FORGET_DEAD, (key,))
    return outcome


def drop(connection: sqlite3.Connection, key: str, in_flight: Collection[int]) -> Removed | Problem:
    """Throw away a waiting send, unless it is being sent just now, or a refused one."""
    waiting = connection.execute(_WAITING, (key,)).fetchone()
    if waiting is not None:
        entry_id, *stored = waiting
        if entry_id in in_flight:
            detail = f"{key} is on its way to the adapter; a moment later it has arrived, or waits again."
            return Problem("in-flight", detail, retry_after=1.0)
        connection.execute(_DELETE, (entry_id,))
        return Removed("waiting", stored_json(*stored))
    dead = connection.execute(_FIND_DEAD, (key,)).fetchone()
    if dead is None:
        return _unknown(key)
    connection.execute(_FORGET_DEAD, (key,))
    return Removed("dead", stored_json(*dead))


def _entry(entry_id: int, key: str, column: bytes, queued_at_us: int) -> Entry:
    envelope = stored_json(column, queued_at_us)
    return Entry(entry_id, Draft(key, orjson.loads(envelope), envelope), queued_at_us)


def _count(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])


def _position(connection: sqlite3.Connection, entry_id: int) -> int:
    return int(connection.execute(_POSITION, (entry_id,)).fetchone()[0])


def _again(connection: sqlite3.Connection, draft: Draft, found: tuple[int, bytes], digest: bytes) -> Outcome:
    entry_id, stored = found
    if stored != digest:
        return _conflict(draft.key, "waits in the outbox")
    return _queued(draft.key, _position(connection, entry_id))


def _conflict(key: str, what: str) -> Outcome:
    detail = f"The key {key} was used for other content, which {what}."
    return refused(Problem("idempotency-conflict", detail, field="/idempotency_key"))


def _full(depth: int, bounds: OutboxBounds, *, critical: bool) -> Problem:
    kept = "" if critical or depth >= bounds.entries_max else " The places that are left are for critical messages."
    detail = f"{depth} sends wait already for the adapter; nothing was dropped.{kept} Try again later."
    return Problem(
        "outbox-full", detail, retry_after=_FULL_RETRY_SECONDS, outbox_depth=depth, outbox_max=bounds.entries_max
    )


def _unknown(key: str) -> Problem:
    return Problem("not-found", f"No send waits under the key {key}, and no refused one is kept.")


def _queued(key: str, position: int) -> Outcome:
    answer = {"status": "queued", "outbox_position": position, "idempotency_key": key}
    return Outcome(Verdict.ACCEPTED, 202, answer=answer)
