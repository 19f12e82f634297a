"""A sidecar's scenario: an adapter that comes and goes, sends, acknowledgements, and what must be found of them.

`python -m tests.crash.sidecar FOLDER MUTANT` plays it; what an answer promises is told as soon as the answer is there,
and what the adapter has heard the moment it has.
"""

import asyncio
import contextlib
import itertools
import random
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import sidecar.store.store
from shared.database import SqliteError, Tuning, open_database
from shared.strict_json import decode_object
from sidecar.app import application
from tests.crash.answering import answered
from tests.crash.mutants import mutated
from tests.crash.recording import settle_folders, tell
from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, until
from tests.support.factories import new_key
from tests.support.fake_adapter import FakeAdapter
from tests.support.store_hand import looking_at, unsoundness

AGENT = "pm"
STORE = f"sidecar-{AGENT}/sidecar.db"
CALLS = 200
_TURNS = 10
_DRAIN_SECONDS_MAX = 60.0

_STARTS_MAX = 10
_TUNING = Tuning(wal_bytes=96 * 1024, cache_bytes=1024 * 1024)
"""A log so short that checkpoints happen in between."""

_LIMITS = {
    "health_poll_seconds": 0.05, "link_timeout_seconds": 5.0, "breaker_failures": 1, "breaker_reset_seconds": 0.02,
    "breaker_reset_cap_seconds": 0.05, "lease_seconds": 3_600,
}  # fmt: skip


class _Heard(list[dict[str, Any]]):
    """Acknowledgements as the adapter hears them: told at once, before the sidecar can know that it has."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def append(self, ack: dict[str, Any]) -> None:
        """One more request."""
        for delivery_id in ack["delivery_ids"]:
            tell(self._folder, {"kind": "told", "delivery_id": delivery_id})
        super().append(ack)


class Scenario:
    """Calls by one seed, and the promises of their answers."""

    def __init__(self, folder: Path, deployment: Deployment, client: AgentClient) -> None:
        self._folder = folder
        self._deployment = deployment
        self._client = client
        self._rng = random.Random("sidecar")
        self._numbers = itertools.count(1)
        self._held: list[dict[str, Any]] = []
        self.adapter = FakeAdapter({AGENT: deployment.keyring(AGENT)}, {"product": [AGENT], "@qa": []})
        self.adapter.judge = self._judge
        self.adapter.acks = _Heard(folder)

    async def play(self) -> None:
        """The adapter is away and there, in turns."""
        for _ in range(_TURNS):
            for _ in range(CALLS // _TURNS // 2):
                await (self._ack() if self._held and self._rng.random() < 0.3 else self._send())
            async with self.adapter.running(self._deployment.config.adapter_socket):
                await until(self._drained, "the adapter was told everything", _DRAIN_SECONDS_MAX)
                for _ in range(CALLS // _TURNS // 2):
                    await self._rng.choice((self._send, self._poll, self._ack))()

    def _judge(self, envelope: dict[str, Any]) -> None:
        """The adapter commits it now, as far as this scenario goes."""
        self._tell(kind="arrived", key=envelope["idempotency_key"])

    async def _drained(self) -> bool:
        health = await self._client.health()
        return health["adapter_reachable"] and not health["outbox_depth"] and not health["deferred_acks"]

    async def _send(self) -> None:
        size = self._rng.choice((10, 500, 5_000))
        payload = {"n": next(self._numbers), "text": self._rng.randbytes(size).hex()}
        key = new_key()
        answer = await answered(lambda: self._client.send("product", payload=payload, idempotency_key=key))
        assert answer.status in (201, 202), answer
        if answer.status == 202:
            self._tell(kind="queued", key=key, payload=payload)

    async def _poll(self) -> None:
        answer = await answered(lambda: self._client.poll(count=3))
        if answer.status == 200:
            self._held += answer.document["messages"]

    async def _ack(self) -> None:
        if self._held:
            message = self._held.pop(0)
            body = {"delivery_ids": [message["delivery_id"]]}
            answer = await answered(lambda: self._client.call("POST", "/v1/messages/ack", body))
            assert answer.status == 200, answer
            envelope = message["envelope"]
            self._tell(
                kind="deferred" if answer.document["deferred"] else "acked",
                delivery_id=message["delivery_id"], sender=envelope["sender"], key=envelope["idempotency_key"],
            )  # fmt: skip

    def _tell(self, **promise: Any) -> None:
        tell(self._folder, promise)


@contextlib.asynccontextmanager
async def _running(deployment: Deployment) -> AsyncIterator[AgentClient]:
    async with (
        application(deployment.config_path, AGENT),
        AgentClient(deployment.config.sidecar_socket(AGENT)) as client,
    ):
        yield client


async def play(folder: Path) -> None:
    """The scenario, and the end of the process in peace. A start that a failing disk refuses is made again."""
    deployment = Deployment(folder, _LIMITS)
    settle_folders(folder)
    with mock.patch.object(sidecar.store.store, "open_database", partial(open_database, tuning=_TUNING)):
        async with contextlib.AsyncExitStack() as running:
            client = await _started(running, deployment)
            await Scenario(folder, deployment, client).play()


async def _started(running: contextlib.AsyncExitStack, deployment: Deployment) -> AgentClient:
    for left in reversed(range(_STARTS_MAX)):
        try:
            return await running.enter_async_context(_running(deployment))
        except SqliteError:
            if not left:
                raise
    raise AssertionError("there is a last start")


# Afterwards


def faults(folder: Path, promises: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Everything that was promised and is not so, in words; raises what SQLite raises for a store it cannot read."""
    path = folder / STORE
    told = {kind: [p for p in promises if p["kind"] == kind] for kind in ("queued", "arrived", "acked", "deferred")}
    heard = {promise["delivery_id"] for promise in promises if promise["kind"] == "told"}
    if not path.exists():
        if promises:
            yield "the store is gone"
        return
    with looking_at(path) as connection:
        yield from unsoundness(connection)
        if not any(told.values()):
            return
        waiting = dict(connection.execute("SELECT idempotency_key, envelope FROM outbox ORDER BY id"))
        processed = set(connection.execute("SELECT sender, idempotency_key FROM processed"))
        deferred = {delivery_id for (delivery_id,) in connection.execute("SELECT delivery_id FROM deferred_acks")}
    yield from _sends(told["queued"], {promise["key"] for promise in told["arrived"]}, waiting)
    for promise in told["acked"] + told["deferred"]:
        if (promise["sender"], promise["key"]) not in processed:
            yield f"{promise['key']} was acknowledged and is not remembered as processed"
    for promise in told["deferred"]:
        if promise["delivery_id"] not in deferred | heard:
            yield f"the acknowledgement of {promise['delivery_id']} was promised and is gone"


def _sends(queued: list[dict[str, Any]], arrived: set[str], waiting: dict[str, bytes]) -> Iterator[str]:
    for promise in queued:
        if promise["key"] in waiting:
            if decode_object(bytes(waiting[promise["key"]]))["payload"] != promise["payload"]:
                yield f"{promise['key']} has other content"
        elif promise["key"] not in arrived:
            yield f"{promise['key']} was queued and is gone"
    order = [promise["key"] for promise in queued if promise["key"] in waiting]
    if [key for key in waiting if key in set(order)] != order:
        yield "the outbox is not in the order of its sends"


if __name__ == "__main__":
    with mutated(sys.argv[2]):
        asyncio.run(play(Path(sys.argv[1])))
