"""PostgreSQL as a queue: a row for each message, one for each delivery, taken with SKIP LOCKED."""

import asyncio
import os
import pwd
import shutil
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.deployment import CannotRun
from bench.peers.base import RECEIVERS, TAKE_MAX, WAIT_SECONDS, Peer, Send, Take, Taken

_SCHEMA: Final = """
CREATE TABLE messages (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE deliveries (recipient text, message_id bigint, PRIMARY KEY (recipient, message_id));
"""
_SEND: Final = """
WITH m AS (INSERT INTO messages (body) VALUES (%s) RETURNING id)
INSERT INTO deliveries SELECT unnest(%s::text[]), id FROM m
"""
_TAKE: Final = """
WITH taken AS (
    DELETE FROM deliveries WHERE recipient = %s AND message_id IN (
        SELECT message_id FROM deliveries WHERE recipient = %s ORDER BY message_id LIMIT %s FOR UPDATE SKIP LOCKED)
    RETURNING message_id)
SELECT body FROM taken JOIN messages ON id = message_id ORDER BY id
"""
_PAUSE_SECONDS: Final = 0.002
_ACCOUNT: Final = "postgres"


class Postgres(Peer):
    """Over its Unix socket. A connection for each send in flight; a batch is taken and acknowledged by one commit."""

    name = "postgres"
    durability = "fsync on, synchronous_commit on; a consumer that finds nothing asks again after 2 ms"
    hint = "apt install postgresql"

    def __init__(self) -> None:
        super().__init__()
        self._connections: list[psycopg.AsyncConnection[Any]] = []
        self._starting: Sequence[str] = ()

    def server(self) -> str:
        """See `Peer`. The package puts its programs outside of the path."""
        packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        return str(packaged[-1]) if packaged else "postgres"

    async def start(self, folder: Path) -> None:
        """See `Peer`."""
        self.folder, data = folder, folder / "data"
        account = _account()
        if account is not None:
            _open_to(account, folder)
        made = await asyncio.create_subprocess_exec(
            *(
                *_as(account),
                _initdb(self.server()),
                "--pgdata",
                str(data),
                "--username",
                "bench",
                "--auth",
                "trust",
                "--no-sync",
            ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
        )
        said, _ = await made.communicate()
        if made.returncode:
            raise CannotRun(f"initdb failed: {said.decode(errors='replace')}")
        settings = (
            "fsync=on",
            "synchronous_commit=on",
            "max_connections=300",
            "listen_addresses=",
            f"unix_socket_directories={folder}",
        )
        options = [part for setting in settings for part in ("-c", setting)]
        self._starting = [*_as(account), self.server(), "-D", str(data), *options]
        await self.restart()
        await self.process.until_ready(self._connect, folder)
        await self._connections[0].execute(_SCHEMA)

    async def restart(self) -> None:
        """See `Peer`."""
        await self.process.start(self._starting, self.folder)

    async def disconnect(self) -> None:
        """See `Peer`."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()

    async def sender(self, name: str, to: str) -> Send:
        """See `Peer`."""
        del name
        idle: list[psycopg.AsyncConnection[Any]] = []
        receivers = list(RECEIVERS[to])

        async def send(body: bytes) -> None:
            connection = idle.pop() if idle else await self._connect()
            await connection.execute(_SEND, (body, receivers), prepare=True)
            idle.append(connection)

        return send

    async def receiver(self, name: str, of: str, most: int = TAKE_MAX) -> Take:
        """See `Peer`. What is received is acknowledged by the same commit."""
        del of
        connection = await self._connect()

        async def take() -> Taken:
            end = asyncio.get_running_loop().time() + WAIT_SECONDS
            while True:
                rows = await (await connection.execute(_TAKE, (name, name, most), prepare=True)).fetchall()
                if rows or asyncio.get_running_loop().time() > end:
                    return Taken([bytes(body) for (body,) in rows], time.perf_counter_ns())
                await asyncio.sleep(_PAUSE_SECONDS)

        return take

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(
            host=str(self.folder), user="bench", dbname="postgres", autocommit=True
        )
        self._connections.append(connection)
        return connection


def _initdb(server: str) -> str:
    """It stands beside the server, wherever a link in the path leads."""
    return str(Path(shutil.which(server) or server).resolve().with_name("initdb"))


def _open_to(account: str, folder: Path) -> None:
    """Give it the folder; raises `CannotRun` where it cannot get there."""
    shut = [parent for parent in folder.absolute().parents if not parent.stat().st_mode & stat.S_IXOTH]
    if shut:
        raise CannotRun(f"PostgreSQL runs as {account}, who cannot enter {shut[0]}; choose another folder with --dir")
    shutil.chown(folder, account)


def _as(account: str | None) -> tuple[str, ...]:
    """What a command begins with that runs as another user: uvloop cannot start one so."""
    if account is None:
        return ()
    return ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups")


def _account() -> str | None:
    """PostgreSQL refuses to run as root: then it runs as the user of its package."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_ACCOUNT).pw_name
    except KeyError:
        raise CannotRun(f"PostgreSQL does not run as root, and there is no user {_ACCOUNT}") from None


PEER = Postgres()
