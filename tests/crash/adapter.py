"""The adapter's scenario: two hundred calls on its link, and what must be found of them after the power came back.

`python -m tests.crash.adapter FOLDER MUTANT` plays it; what an answer promises is told as soon as the answer is there.
"""

import asyncio
import contextlib
import itertools
import random
import sqlite3
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import adapter.store.engine
import adapter.store.reserve
from adapter.app import adapter as application
from adapter.core.exchange import Exchange
from adapter.core.policy import Now
from adapter.store.names import Names
from adapter.store.queries import SCHEMA
from adapter.store.reserve import read_reserved
from adapter.store.transaction import load_snapshot
from shared.database import Tuning, transaction
from shared.strict_json import decode_object
from shared.times import MICROSECONDS
from tests.crash.answering import answered
from tests.crash.mutants import mutated
from tests.crash.recording import settle_folders, tell
from tests.support.clock import START_SECONDS
from tests.support.deployment import Deployment
from tests.support.factories import policy, topology
from tests.support.link_client import LinkClient
from tests.support.store_hand import as_sent, looking_at, unsoundness

STORE = "adapter/store.db"
_ACKED, _DEAD = 2, 3
_Place = tuple[str, int, str]
"""Channel, sequence, recipient."""

CALLS = 200

_TUNING = Tuning(wal_bytes=192 * 1024, cache_bytes=1024 * 1024)
"""A log so short that checkpoints happen in between."""

_MESSAGES_AHEAD = 20
"""So few that numbers are reserved again and again."""

_LIMITS = {"lease_seconds": 3_600, "attempts_max": 2, "retry_base_seconds": 0, "queue_max": 20}
_ACTS = {"send": 8, "batch": 2, "again": 1, "poll": 6, "ack": 6, "fail": 2, "refuse": 1, "replay": 1}


class Scenario:
    """Calls by one seed, and the promises of their answers."""

    def __init__(self, folder: Path, clients: dict[str, LinkClient]) -> None:
        self._folder = folder
        self._clients = clients
        self._rng = random.Random("adapter")
        self._numbers = itertools.count(1)
        self._sent: list[tuple[str, dict[str, Any]]] = []
        self._held: list[tuple[str, dict[str, Any]]] = []
        self._dead: list[dict[str, Any]] = []

    async def play(self) -> None:
        """Every call, one after the other."""
        acts = {name: getattr(self, f"_{name}") for name in _ACTS}
        for _ in range(CALLS):
            (name,) = self._rng.choices(list(_ACTS), list(_ACTS.values()))
            await acts[name]()

    def _content(self) -> dict[str, Any]:
        size = self._rng.choice((10, 500, 3_000, 12_000))
        return {"payload": {"n": next(self._numbers), "text": self._rng.randbytes(size).hex()}}

    async def _send(self, count: int = 1) -> None:
        agent = self._rng.choice(("pm", "qa"))
        to = self._rng.choice(("product", "@qa", "@pm", "platform" if agent == "pm" else "@engineering"))
        envelopes = [self._clients[agent].envelope(to, **self._content()) for _ in range(count)]
        self._sent += [(agent, envelope) for envelope in envelopes]
        await self._submit(agent, envelopes)

    async def _batch(self) -> None:
        await self._send(self._rng.randint(2, 12))

    async def _again(self) -> None:
        if self._sent:
            agent, envelope = self._rng.choice(self._sent)
            await self._submit(agent, [envelope])

    async def _submit(self, agent: str, envelopes: Sequence[dict[str, Any]]) -> None:
        client = self._clients[agent]
        body = {"envelopes": list(envelopes)}
        answer = await answered(lambda: client.call("POST", "/link/v1/messages", body))
        for envelope, outcome in zip(envelopes, answer.document["outcomes"], strict=True):
            assert outcome["code"] in (200, 201), outcome
            place = outcome["answer"]
            self._tell(
                kind="sent", sender=agent, key=envelope["idempotency_key"], payload=envelope["payload"],
                channel=place["channel"], sequence=place["channel_sequence_id"],
                agents=[recipient["agent"] for recipient in place["recipients"]],
            )  # fmt: skip

    async def _poll(self) -> None:
        agent = self._rng.choice(("pm", "qa"))
        client, body = self._clients[agent], {"wait": 0, "max": self._rng.randint(1, 5)}
        answer = await answered(lambda: client.call("POST", "/link/v1/poll", body))
        for message in answer.document["messages"]:
            self._held.append((agent, message))
            self._tell(kind="handed", agent=agent, attempt=message["attempt"], **_place(message))

    async def _ack(self) -> None:
        if self._held:
            agent, message = self._held.pop(0)
            self._tell(kind="acking", agent=agent, **_place(message))
            answer = await answered(lambda: self._clients[agent].ack(message["delivery_id"]))
            if answer.status == 200:
                self._tell(kind="settled", agent=agent, state=2, **_place(message))

    async def _fail(self) -> None:
        await self._nack("fail")

    async def _refuse(self) -> None:
        await self._nack("refuse")

    async def _nack(self, mode: str) -> None:
        if self._held:
            agent, message = self._held.pop(self._rng.randrange(len(self._held)))
            answer = await answered(lambda: self._clients[agent].nack(message["delivery_id"], mode))
            if answer.status == 200 and answer.document["status"] == "dead":
                self._dead.append({"recipient": agent, **_item(message)})
                self._tell(kind="settled", agent=agent, state=3, **_place(message))

    async def _replay(self) -> None:
        if self._dead:
            item = self._dead.pop()
            client, body = self._clients["orchestrator"], {"items": [item]}
            answer = await answered(lambda: client.call("POST", "/link/v1/dead-letters/replay", body))
            if answer.status == 200 and answer.document["replayed"]:
                self._tell(
                    kind="replayed", agent=item["recipient"], channel=item["channel"],
                    sequence=item["channel_sequence_id"],
                )  # fmt: skip

    def _tell(self, **promise: Any) -> None:
        tell(self._folder, promise)


def _place(message: dict[str, Any]) -> dict[str, Any]:
    return {"channel": message["envelope"]["to"], "sequence": message["envelope"]["channel_sequence_id"]}


def _item(message: dict[str, Any]) -> dict[str, Any]:
    return {"channel": message["envelope"]["to"], "channel_sequence_id": message["envelope"]["channel_sequence_id"]}


@contextlib.asynccontextmanager
async def _clients(deployment: Deployment) -> AsyncIterator[dict[str, LinkClient]]:
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for agent in ("orchestrator", "pm", "qa"):
            client = LinkClient(deployment.config.adapter_socket, deployment.keyring(agent))
            clients[agent] = await stack.enter_async_context(client)
        yield clients


async def play(folder: Path) -> None:
    """The scenario, and the end of the process in peace."""
    deployment = Deployment(folder, _LIMITS)
    settle_folders(folder)
    with (
        mock.patch.object(adapter.store.engine, "BUSY_STORE", _TUNING),
        mock.patch.object(adapter.store.reserve, "MESSAGES_AHEAD", _MESSAGES_AHEAD),
    ):
        async with application(deployment.config), _clients(deployment) as clients:
            await Scenario(folder, clients).play()


# Afterwards


def faults(folder: Path, promises: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Everything that was promised and is not so, in words; raises what SQLite raises for a store it cannot read."""
    path = folder / STORE
    if not path.exists():
        if promises:
            yield "the store is gone"
        return
    with looking_at(path) as connection:
        yield from unsoundness(connection)
        connection.executescript(SCHEMA)
        yield from _unreserved(connection, path)
        default = topology()
        with transaction(connection):
            names = Names.register(connection, (*default.roles, "adapter"), default.members)
        at = START_SECONDS * MICROSECONDS
        Exchange(default, load_snapshot(connection, names), policy(), Now(at, at))
        yield from _broken(connection, promises)


def _unreserved(connection: sqlite3.Connection, path: Path) -> Iterator[str]:
    """A restore would give these numbers again."""
    last, reserved = connection.execute("SELECT max(last_message_id) FROM channels").fetchone()[0], read_reserved(path)
    if last and (reserved is None or last >= reserved.messages_end):
        yield f"message {last} was given, and what is reserved is {reserved}"


def _broken(connection: sqlite3.Connection, promises: Sequence[dict[str, Any]]) -> Iterator[str]:
    last = dict(connection.execute("SELECT name, last_sequence FROM channels"))
    for promise in promises:
        if promise["kind"] == "sent":
            yield from _sent_faults(connection, promise, last)
    rows = {
        (channel, sequence, agent): (state, handovers)
        for channel, sequence, agent, state, handovers in connection.execute(
            "SELECT c.name, m.sequence, a.name, d.state, d.handovers FROM deliveries AS d "
            "JOIN messages AS m ON m.id = d.message_id JOIN channels AS c ON c.id = m.channel_id "
            "JOIN agents AS a ON a.id = d.recipient_id"
        )
    }
    by_place: dict[_Place, list[dict[str, Any]]] = defaultdict(list)
    for promise in promises:
        if promise["kind"] != "sent":
            by_place[promise["channel"], promise["sequence"], promise["agent"]].append(promise)
    for place, told in by_place.items():
        yield from _place_faults(place, told, *rows.get(place, (None, 0)))


def _place_faults(place: _Place, told: list[dict[str, Any]], state: int | None, handovers: int) -> Iterator[str]:
    kinds = [promise["kind"] for promise in told]
    attempts = max((promise["attempt"] for promise in told if promise["kind"] == "handed"), default=0)
    if handovers < attempts:
        yield f"{place} was handed over {attempts} times, and the store says {handovers}"
    if any(promise.get("state") == _ACKED for promise in told) and state != _ACKED:
        yield f"{place} was told to be acked and is in state {state}"
    if state == _ACKED and "acking" not in kinds:
        yield f"{place} is acked, and nobody acked it"
    if kinds[-1] == "settled" and told[-1]["state"] == _DEAD and state in {None, _ACKED}:
        yield f"{place} was told to be dead and is in state {state}"


def _sent_faults(connection: sqlite3.Connection, promise: dict[str, Any], last: dict[str, int]) -> Iterator[str]:
    where = f"{promise['channel']} {promise['sequence']}"
    row = connection.execute(
        "SELECT m.id, m.envelope FROM messages AS m JOIN channels AS c ON c.id = m.channel_id "
        "JOIN agents AS a ON a.id = m.sender_id WHERE c.name = ? AND m.sequence = ? AND a.name = ?",
        (promise["channel"], promise["sequence"], promise["sender"]),
    ).fetchone()
    if row is None:
        yield f"{where} was acknowledged and is gone"
        return
    envelope = decode_object(as_sent(row[1]))
    if (envelope["idempotency_key"], envelope["payload"]) != (promise["key"], promise["payload"]):
        yield f"{where} has other content"
    if last.get(promise["channel"], 0) < promise["sequence"]:
        yield f"{where} was given, and its number will be given again"
    agents = connection.execute(
        "SELECT a.name FROM deliveries AS d JOIN agents AS a ON a.id = d.recipient_id WHERE d.message_id = ?", row[:1]
    ).fetchall()
    missing = set(promise["agents"]) - {name for (name,) in agents}
    if missing:
        yield f"{where} has no delivery for {sorted(missing)}"


if __name__ == "__main__":
    with mutated(sys.argv[2]):
        asyncio.run(play(Path(sys.argv[1])))
