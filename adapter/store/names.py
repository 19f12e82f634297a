"""Agents and channels by number, as rows refer to them."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from adapter.store.queries import SQL


@dataclass(frozen=True, slots=True)
class Names:
    """Both ways: number of a name, name of a number."""

    agent_ids: dict[str, int]
    agent_names: dict[int, str]
    channel_ids: dict[str, int]
    channel_names: dict[int, str]

    @classmethod
    def register(cls, connection: sqlite3.Connection, agents: Iterable[str], channels: Iterable[str]) -> "Names":
        """Give a number to every name that has none, and read them all. Runs inside a transaction."""
        connection.executemany(SQL["insert_agent"], [(name,) for name in agents])
        connection.executemany(SQL["insert_channel"], [(name,) for name in channels])
        connection.execute(SQL["lose_before_channel"])
        agent_rows = connection.execute(SQL["agents"]).fetchall()
        channel_rows = connection.execute(SQL["channels"]).fetchall()
        return cls(
            {name: number for number, name in agent_rows},
            dict(agent_rows),
            {name: number for number, name, _ in channel_rows},
            {number: name for number, name, _ in channel_rows},
        )
