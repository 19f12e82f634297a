"""The SQLite of this process. Importing this opens nothing."""

import sqlite3
from types import ModuleType
from typing import Final

from shared.database.verdict import verdict

try:
    import pysqlite3
except ImportError:  # no wheel for this platform: the standard library's SQLite serves
    LIBRARY: ModuleType = sqlite3
else:
    LIBRARY = pysqlite3

SQLITE_VERSION: Final[str] = LIBRARY.sqlite_version
SQLITE_VERDICT: Final = verdict(SQLITE_VERSION)
SqliteError: Final[type[Exception]] = LIBRARY.Error
