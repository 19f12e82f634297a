"""The outbox: sends that wait for the adapter, durable and in order (promise 11)."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from shared.clock import Clock
from shared.envelope import content_sha256
from shared.limits import BATCH_MESSAGES_MAX
from shared.problems import Problem
from shared.strict_json import encode
from shared.times import MICROSECONDS
from sidecar.core.drafts import Draft, count_to_send
from sidecar.core.link_outcome import Outcome, Verdict, refused
from sidecar.store.store import Store

_log = logging.getLogger(__name__)

DEAD_MAX: Final = 1_000
"""Sends set aside that are kept, as many as an outbox holds by default: each of them needs a human. Beyond it the
oldest leave, and each of those is written to the log whole."""

_FIRST_TRY_US_MAX: Final = 3_600 * MICROSECONDS
"""By which a first, direct try may have come before the entry was made: far more than any timeout of the link."""

_FULL_RETRY_SECONDS: Final = 5.0

_FIND = "SELECT id, content_sha256 FROM outbox WHERE idempotency_key = ?"
_DEPTH = "SELECT count(*) FROM outbox"
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
_DROP = (
    "DELETE FROM outbox_dead WHERE rowid IN (SELECT rowid FROM outbox_dead ORDER BY refused_at_us, rowid "
    "LIMIT max(0, (SELECT count(*) FROM outbox_dead) - ?)) RETURNING idempotency_key, problem, envelope"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A waiting send."""

    id: int
    draft: Draft
    queued_at_us: int


class Outbox:
    """`depth` counts what waits, `dead` what was refused for good; both follow the commits.

    What has waited for less than `days_max` can be sent: the adapter remembers keys for longer than that, and so knows
    for certain whether it has the message already. What is older it might take twice.
    """

    def __init__(self, store: Store, clock: Clock, entries_max: int, days_max: float) -> None:
        self._store = store
        self._clock = clock
        self._entries_max = entries_max
        self._age_us_max = int(days_max * 86_400 * MICROSECONDS)
        self._arriving = 0
        self.depth = 0
        self.dead = 0

    async def load(self) -> None:
        """Read the counts of an earlier run; before anything else."""
        self.depth = await self._store.read(lambda connection: int(connection.execute(_DEPTH).fetchone()[0]))
        self.dead = await self._store.read(lambda connection: int(connection.execute(_DEAD).fetchone()[0]))

    @property
    def occupied(self) -> bool:
        """Whether anything waits or is about to: then a later send must join, or it would overtake."""
        return self.depth + self._arriving > 0

    def add(self, draft: Draft) -> "asyncio.Future[Outcome]":
        """Commit a send behind all earlier ones; the outcome is 202, or why not. Cancelling it does not undo it."""
        digest = content_sha256(draft.envelope)
        now_us = self._clock.wall_us()
        self._arriving += 1
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        committed = self._store.commit(lambda connection: self._insert(connection, draft, digest, now_us))
        committed.add_done_callback(partial(self._arrived, outcome))
        return outcome

    async def head(self) -> list[Entry]:
        """The oldest entries that fit one batch."""
        return await self._store.read(_read_head)

    def overdue(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that have waited for too long, by a wall clock that may be wrong."""
        now_us = self._clock.wall_us()
        return [entry for entry in entries if now_us - entry.queued_at_us > self._age_us_max]

    async def settle(self, done: Sequence[Entry], dead: Sequence[tuple[Entry, dict[str, Any]]]) -> None:
        """Forget what the adapter has, and set aside what it refused for good, in one transaction."""
        now_us = self._clock.wall_us()

        def unit(connection: sqlite3.Connection) -> list[tuple[str, bytes, bytes]]:
            connection.executemany(_BURY, [(encode(problem), now_us, entry.id) for entry, problem in dead])
            connection.executemany(_DELETE, [(entry.id,) for entry in (*done, *(entry for entry, _ in dead))])
            return connection.execute(_DROP, (DEAD_MAX,)).fetchall() if dead else []

        for key, problem, envelope in await self._store.commit(unit):
            _log.error("outbox-dead-dropped: %s: %s: %s", key, problem.decode(), envelope.decode())
        self.depth -= len(done) + len(dead)
        if dead:
            self.dead = await self._store.read(lambda connection: int(connection.execute(_DEAD).fetchone()[0]))

    async def arrived(self) -> None:
        """Wait until what is on its way in has been committed."""
        await self._store.settled()

    def _insert(self, connection: sqlite3.Connection, draft: Draft, digest: bytes, now_us: int) -> tuple[Outcome, bool]:
        """The outcome, and whether a row was added."""
        found = connection.execute(_FIND, (draft.key,)).fetchone()
        if found:
            return _again(connection, draft, found, digest), False
        (depth,) = connection.execute(_DEPTH).fetchone()
        if depth >= self._entries_max:
            detail = f"The adapter is away and {depth} sends wait already; nothing was dropped. Try again later."
            return refused(Problem("outbox-full", detail, retry_after=_FULL_RETRY_SECONDS)), False
        connection.execute(_INSERT, (draft.key, digest, draft.encoded, now_us))
        return _queued(draft, depth + 1), True

    def _arrived(self, outcome: "asyncio.Future[Outcome]", committed: "asyncio.Future[tuple[Outcome, bool]]") -> None:
        self._arriving -= 1
        fault = committed.exception()
        if fault is None:
            result, added = committed.result()
            self.depth += added
        else:
            result = refused(fault if isinstance(fault, Problem) else Problem("internal", repr(fault)))
        if not outcome.done():
            outcome.set_result(result)


def older_than(entries: Sequence[Entry], forgotten_us: int) -> list[Entry]:
    """Those that the adapter may have taken before it began to remember: a first try may be older than its entry."""
    return [entry for entry in entries if entry.queued_at_us - _FIRST_TRY_US_MAX < forgotten_us]


def _again(connection: sqlite3.Connection, draft: Draft, found: tuple[int, bytes], digest: bytes) -> Outcome:
    entry_id, stored = found
    if stored != digest:
        detail = f"The key {draft.key} was used for other content, which waits in the outbox."
        return refused(Problem("idempotency-conflict", detail, field="/idempotency_key"))
    (position,) = connection.execute(_POSITION, (entry_id,)).fetchone()
    return _queued(draft, position)


def _queued(draft: Draft, position: int) -> Outcome:
    answer = {"status": "queued", "outbox_position": position, "idempotency_key": draft.key}
    return Outcome(Verdict.ACCEPTED, 202, answer=answer)


def _read_head(connection: sqlite3.Connection) -> list[Entry]:
    sizes = [size for (size,) in connection.execute(_SIZES, (BATCH_MESSAGES_MAX,))]
    rows = connection.execute(_HEAD, (count_to_send(sizes),)).fetchall()
    return [Entry(entry_id, Draft(key, orjson.loads(envelope), envelope), at) for entry_id, key, envelope, at in rows]
