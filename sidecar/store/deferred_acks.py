"""Acknowledgements that wait for the adapter: the agent's part is done, the adapter does not know it yet."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.limits import BATCH_MESSAGES_MAX
from sidecar.store.lost_pages import stored_json
from sidecar.store.store import Store

_ADD = (
    "INSERT INTO deferred_acks (delivery_id, result) VALUES (?, ?) "
    "ON CONFLICT (delivery_id) DO UPDATE SET result = excluded.result"
)
_HEAD = "SELECT delivery_id, result FROM deferred_acks ORDER BY id LIMIT ?"
_DELETE = "DELETE FROM deferred_acks WHERE delivery_id = ?"
_DEPTH = "SELECT count(*) FROM deferred_acks"


class DeferredAck(NamedTuple):
    """One hand-over and its encoded result."""

    delivery_id: str
    result: bytes | None


class DeferredAcks:
    """`depth` counts them and follows the commits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.depth = 0

    async def load(self) -> None:
        """Read the count of an earlier run."""
        self.depth = await self._store.read(_count)

    async def add(self, results: Mapping[str, bytes | None]) -> None:
        """Keep acknowledgements, by delivery id, each with its encoded result."""

        def unit(connection: sqlite3.Connection) -> int:
            connection.executemany(_ADD, list(results.items()))
            return _count(connection)

        self.depth = await self._store.commit(unit)

    async def head(self) -> list[DeferredAck]:
        """The oldest, as many as one request takes."""

        def unit(connection: sqlite3.Connection) -> list[DeferredAck]:
            rows = connection.execute(_HEAD, (BATCH_MESSAGES_MAX,))
            return [DeferredAck(each, None if result is None else stored_json(result)) for each, result in rows]

        return await self._store.read(unit)

    async def remove(self, delivery_ids: Sequence[str]) -> None:
        """Forget those the adapter has heard or will never take."""

        def unit(connection: sqlite3.Connection) -> int:
            connection.executemany(_DELETE, [(delivery_id,) for delivery_id in delivery_ids])
            return _count(connection)

        self.depth = await self._store.commit(unit)


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_DEPTH).fetchone()[0])
