"""The one place that opens databases: which SQLite, how a store is opened, and who may hold it."""

from shared.database.backup import (
    PARTIAL_SUFFIX,
    Rest,
    connect_copy,
    connect_to_change,
    refuse_copy,
    stamp_copy,
    unstamp_copy,
    verify_backup,
    write_backup,
    write_copy,
)
from shared.database.checksums import library_checksums
from shared.database.connection import Database, ThreadEnded, transaction
from shared.database.damage import Damage, is_certain, is_damage
from shared.database.examination import describe_damage, doubt
from shared.database.library import SQLITE_VERDICT, SQLITE_VERSION, SqliteError
from shared.database.lock import LOCK_PATIENCE_SECONDS, StoreLock
from shared.database.log_length import log_bytes, stuck_bytes
from shared.database.log_mark import is_gone, read_missing
from shared.database.migrations import Migration, bring_forward, check_version, load_migrations
from shared.database.opening import BUSY_STORE, QUIET_STORE, Tuning, open_database, open_reader, read_once
from shared.database.page_file import PageFile
from shared.database.space import give_back, read_space
from shared.database.verdict import Verdict, verdict
from shared.database.zero_pages import lost_pages

__all__ = [
    "BUSY_STORE",
    "LOCK_PATIENCE_SECONDS",
    "PARTIAL_SUFFIX",
    "QUIET_STORE",
    "SQLITE_VERDICT",
    "SQLITE_VERSION",
    "Damage",
    "Database",
    "Migration",
    "PageFile",
    "Rest",
    "SqliteError",
    "StoreLock",
    "ThreadEnded",
    "Tuning",
    "Verdict",
    "bring_forward",
    "check_version",
    "connect_copy",
    "connect_to_change",
    "describe_damage",
    "doubt",
    "give_back",
    "is_certain",
    "is_damage",
    "is_gone",
    "library_checksums",
    "load_migrations",
    "log_bytes",
    "lost_pages",
    "open_database",
    "open_reader",
    "read_missing",
    "read_once",
    "read_space",
    "refuse_copy",
    "stamp_copy",
    "stuck_bytes",
    "transaction",
    "unstamp_copy",
    "verdict",
    "verify_backup",
    "write_backup",
    "write_copy",
]
