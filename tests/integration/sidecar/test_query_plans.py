"""What a send, a hand-over and an ack cost at the sidecar must not grow with its store."""

from importlib import resources
from pathlib import Path

import pytest

import sidecar.store
from shared.database import Database
from tests.support.query_plans import filled, indexes_of, own_indexes, plan, statements_in, walks

_SCHEMA = resources.files("sidecar.store").joinpath("schema.sql").read_text(encoding="utf-8")
_STATEMENTS = tuple(statements_in(Path(sidecar.store.__file__).parent))

_IN_ORDER_OF_THE_KEY = {
    # Each with a LIMIT: they end after so many rows.
    "SELECT delivery_id, result FROM deferred_acks ORDER BY id LIMIT ?",
    "SELECT length(envelope) FROM outbox ORDER BY id LIMIT ?",
    "SELECT id, idempotency_key, envelope, queued_at_us FROM outbox ORDER BY id LIMIT ?",
    "SELECT delivery_id, sender, idempotency_key FROM processed ORDER BY id DESC LIMIT ?",
    "SELECT processed_at_us FROM processed ORDER BY id DESC LIMIT 1",
}
_SMALL_TABLES = {
    "deferred_acks",  # what was handed over before the adapter went away: as much as a queue holds
    "outbox",  # `outbox_max`
    "outbox_dead",  # `DEAD_MAX`
    "conditions",  # a row for each
    "seen",  # a row for each channel
}

_FILL = (
    (
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO processed (sender, idempotency_key, delivery_id, result, processed_at_us) "
        "SELECT 'agent-' || (i % 7), hex(randomblob(16)), hex(randomblob(16)), zeroblob(50), i FROM n"
    ),
    "INSERT INTO deferred_acks (delivery_id) SELECT delivery_id FROM processed WHERE id <= 500",
    (
        "INSERT INTO outbox (idempotency_key, content_sha256, envelope, queued_at_us) "
        "SELECT idempotency_key, x'00', zeroblob(200), id FROM processed WHERE id <= 1000"
    ),
    "INSERT INTO seen (channel, sequence) SELECT 'channel-' || id, id FROM processed WHERE id <= 10",
)


def is_bounded(text: str, steps: list[str]) -> bool:
    """Whether what a plan walks is small, or walked no further than a `LIMIT`."""
    if text in _IN_ORDER_OF_THE_KEY:
        return len(steps) == 1 and steps[0].startswith("SCAN ") and " LIMIT " in text
    walked = [step for step in walks(steps) if step != "USE TEMP B-TREE FOR ORDER BY"]
    return {step.split()[1] for step in walked} <= _SMALL_TABLES


@pytest.fixture(params=[False, True], ids=["as it stands", "analysed"])
async def store(request, tmp_path: Path) -> Database:
    """A store of some size."""

    def fill(connection) -> None:
        for statement in _FILL:
            connection.execute(statement)

    async with filled(tmp_path / "sidecar.db", _SCHEMA, fill, analysed=request.param) as database:
        yield database


async def test_no_statement_walks_what_grows(store: Database) -> None:
    """Each searches by a key, walks a small table, or takes so many rows in the order of the key and stops."""
    plans = await store.run(lambda connection: {text: plan(connection, text) for text in _STATEMENTS})
    assert {text: steps for text, steps in plans.items() if not is_bounded(text, steps)} == {}


async def test_every_index_earns_its_keep(store: Database) -> None:
    """Each that is not there to keep keys unique is looked into by some statement."""

    def unused(connection) -> set[str]:
        return own_indexes(connection).difference(*(indexes_of(plan(connection, text)) for text in _STATEMENTS))

    assert await store.run(unused) == set()


def test_the_exceptions_are_statements_of_the_store() -> None:
    """None stands here that nobody runs any more, and the store has statements at all."""
    assert set(_STATEMENTS) >= _IN_ORDER_OF_THE_KEY
