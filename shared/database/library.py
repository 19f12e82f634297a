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

# Of what it binds, this module knows int, float, str and bytearray as they are. For any other type it looks for an
# adapter, then for two protocols that no value here has, and that is most of what a narrow row costs (`need_adapt` and
# `pysqlite_microprotocols_adapt` in CPython's Modules/_sqlite). These adapters change nothing, and are found first.
for _kind, _as_it_is in ((type(None), {}.get), (bool, int), (bytes, bytes)):
    LIBRARY.register_adapter(_kind, _as_it_is)

SQLITE_VERSION: Final[str] = LIBRARY.sqlite_version
SQLITE_VERDICT: Final = verdict(SQLITE_VERSION)
SqliteError: Final[type[Exception]] = LIBRARY.Error
