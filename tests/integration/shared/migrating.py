"""`python -m tests.integration.shared.migrating PATH N`: open a store of an older form and die by SIGKILL at the Nth
statement of the opening that changes something; ends by itself where there are fewer."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import shared.database.migrations as migrating
from shared.database import Migration, open_database

OLD: Final = "CREATE TABLE item (n INTEGER PRIMARY KEY); CREATE TABLE note (item INTEGER, text TEXT);"
NEW: Final = """
CREATE TABLE IF NOT EXISTS thing (n INTEGER PRIMARY KEY, text TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS things_by_text ON thing (text);
"""
STEPS: Final = (
    Migration(
        2,
        """
        ALTER TABLE item ADD COLUMN text TEXT NOT NULL DEFAULT ''; -- one; with a semicolon
        UPDATE item SET text = (SELECT text FROM note WHERE item = n);
        DROP TABLE note;
        """,
    ),
    Migration(3, "ALTER TABLE item RENAME TO thing;"),
)


def _dying_at(number: int) -> None:
    """Count statements as they are given to the store."""
    given, left = migrating.statements, number

    def counted(script: str) -> Iterator[str]:
        nonlocal left
        for statement in given(script):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            yield statement
        if left == 0:  # behind the last one, before the version is noted
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    migrating.statements = counted


async def _open(path: Path) -> None:
    database = await open_database(path, NEW, migrations=STEPS)
    await database.close()


if __name__ == "__main__":
    _dying_at(int(sys.argv[2]))
    asyncio.run(_open(Path(sys.argv[1])))
