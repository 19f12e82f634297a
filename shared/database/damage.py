"""Which errors prove that a store is damaged. All others may pass: a disk that is full, busy, failing, or read-only.

A wrong checksum is proof by itself. `SQLITE_CORRUPT` and `SQLITE_NOTADB` are proof where the disk gives what it is
asked for: SQLite says `SQLITE_CORRUPT` also when a read fails with EIO (`SQLITE_IOERR_CORRUPTFS` in its source).
"""

from typing import Final

_CORRUPT: Final = 11
_NOTADB: Final = 26
_PRIMARY: Final = 0xFF

WRONG_CHECKSUM: Final = 8202
"""The code of a page whose checksum is wrong (https://sqlite.org/rescode.html#ioerr_data)."""


class Damage(Exception):  # noqa: N818 - what it is
    """What is wrong with a store that SQLite itself would serve."""


def is_certain(error: BaseException) -> bool:
    """Whether `error` proves damage whatever the disk does meanwhile."""
    return isinstance(error, Damage) or getattr(error, "sqlite_errorcode", None) == WRONG_CHECKSUM


def is_damage(error: BaseException) -> bool:
    """Whether `error` is proof on a disk that can be read: nothing but a repair mends it, and opening again would only
    serve what is left.
    """
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return isinstance(error, Damage)
    return code == WRONG_CHECKSUM or code & _PRIMARY in {_CORRUPT, _NOTADB}
