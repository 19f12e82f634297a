"""The one place that opens databases: which SQLite, how a store is opened, and who may hold it."""

from shared.database.connection import BUSY_STORE, QUIET_STORE, Database, Tuning, open_database, transaction
from shared.database.library import SQLITE_VERDICT, SQLITE_VERSION, SqliteError
from shared.database.lock import LOCK_PATIENCE_SECONDS, StoreLock
from shared.database.space import give_back, read_space
from shared.database.verdict import Verdict, verdict

__all__ = [
    "BUSY_STORE",
    "LOCK_PATIENCE_SECONDS",
    "QUIET_STORE",
    "SQLITE_VERDICT",
    "SQLITE_VERSION",
    "Database",
    "SqliteError",
    "StoreLock",
    "Tuning",
    "Verdict",
    "give_back",
    "open_database",
    "read_space",
    "transaction",
    "verdict",
]
