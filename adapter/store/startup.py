"""What of a store is checked before it serves (promise 16): the part that is alive, at a cost that the queues bound.

The header, the log and the schema are checked as it is opened (`shared/database/opening.py`), each page that is read
by its checksum. All other pages are read in the background (`adapter/store/integrity.py`).
"""

import sqlite3
from typing import Final

from adapter.store.queries import SQL
from shared.database import Damage

_NAMED_MAX: Final = 10


def check_live_part(connection: sqlite3.Connection) -> None:
    """Raises `Damage` where counters, sequences, messages and live deliveries contradict each other."""
    faults = [
        *_counters(connection),
        *(f"message {message}, which waits for its receiver, has no row" for message in _orphans(connection)),
    ]
    if faults:
        raise Damage("; ".join(faults))


def _counters(connection: sqlite3.Connection) -> list[str]:
    newest = connection.execute(SQL["newest_message_id"]).fetchone()[0] or 0
    counted = connection.execute(SQL["last_message_id"]).fetchone()[0] or 0
    faults = [f"it holds message {newest} and has counted {counted}"] if newest > counted else []
    for name, last, stored in connection.execute(SQL["newest_sequences"]):
        if stored is not None and stored > last:
            faults.append(f"channel {name} holds sequence {stored} and has counted {last}")
    return faults


def _orphans(connection: sqlite3.Connection) -> list[int]:
    return [message for (message,) in connection.execute(SQL["orphaned_deliveries"], (_NAMED_MAX,))]
