"""Free pages of an open database, and giving them back a few at a time (https://sqlite.org/pragma.html)."""

import sqlite3

_INCREMENTAL = 2


def read_space(connection: sqlite3.Connection) -> tuple[int, int]:
    """Pages of the file, and how many of them are free and can be given back.

    None can be in a file that was made before that was asked for; what is free in it is only used again.
    """
    pages, free, mode = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "auto_vacuum")
    )
    return pages, free if mode == _INCREMENTAL else 0


def give_back(connection: sqlite3.Connection, pages: int) -> None:
    """Cut up to `pages` free pages off the end of the file, moving what stands there. Runs inside a transaction.

    The file itself becomes shorter with the next checkpoint.
    """
    connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
