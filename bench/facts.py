"""What the figures depend on: the machine, the versions, and how the store was opened."""

import importlib.metadata
import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

from bench.adapter_store import open_store
from shared.database import SQLITE_VERSION


def machine_facts(folder: Path) -> dict[str, Any]:
    """The environment; `folder` is where stores are made, whose file system decides what an fsync costs."""
    return {
        "python": platform.python_version(),
        "sqlite": SQLITE_VERSION,
        "aiohttp": importlib.metadata.version("aiohttp"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "filesystem": _filesystem(folder),
        "load_average_at_start": round(os.getloadavg()[0], 2),
    }


async def store_facts(store: Path) -> dict[str, Any]:
    """How the processes open their stores: `synchronous` belongs to a connection, so it is read from one made alike."""
    database = await open_store(store)
    try:
        return await database.run(_pragmas)
    finally:
        await database.close()


def _pragmas(connection: sqlite3.Connection) -> dict[str, Any]:
    names = ("synchronous", "journal_mode", "page_size", "wal_autocheckpoint")
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


def _filesystem(folder: Path) -> str:
    """The type of the mount that holds `folder` (proc(5), mountinfo)."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return "unknown"
