"""Ten thousand dead letters: nothing is dropped to make room for more, all can be listed, and all can be replayed.

They are kept until somebody replays or resolves them, however many there are (rabbitmq-server#8495, Agendia#322).
"""

import json
import time

import pytest

from adapter.app import adapter
from adapter.core.commands import NewMessage
from adapter.core.dead_letters import Cycle, DeadLetter
from adapter.core.delivery import State
from adapter.store.transaction import SqliteTransaction
from shared import dead_letters as wire
from shared.link import ROOT
from tests.integration.adapter.conftest import Link
from tests.support.engines import SqliteEngine
from tests.support.factories import delivery, send
from tests.support.invariant import read_store

LIST, GROUPS, REPLAY = ROOT + wire.PATH, ROOT + wire.GROUPS_PATH, ROOT + wire.REPLAY_PATH
COUNT, CLOSED_EVERY = 12_500, 5
OPEN = [number for number in range(1, COUNT + 1) if number % CLOSED_EVERY]


def fill(path):
    """Dead letters of qa, every fifth of them resolved."""
    engine = SqliteEngine(str(path))
    with engine.begin() as store:
        assert isinstance(store, SqliteTransaction)
        for number in range(1, COUNT + 1):
            command = send(to="@qa", payload={"n": number})
            place = {"channel_sequence_id": number, "timestamp_iso8601": "2027-01-15T08:00:00.000000Z"}
            body = json.dumps(command.envelope | place).encode()
            store.add_message(NewMessage(number, number, number, command, body))
            dead = delivery(number, "qa", command.order_key, state=State.DEAD, reason="refused", handovers=1, cycles=1)
            store.save_deliveries([dead])
            closure = None if number % CLOSED_EVERY else "resolved"
            letter = DeadLetter(number, "qa", 1, (Cycle("refused", "why" * 100, 1, 0, number),), closure, 1)
            store.save_dead_letters([letter])
        store.save_sequences({"@qa": COUNT}, COUNT)
    engine.close()


@pytest.fixture
async def full(short_folder):
    """An adapter with all of them."""
    async with Link(short_folder) as link:
        fill(link.config.adapter_store)
        async with adapter(link.config):
            yield link


async def ask(client, method, target, body=None):
    answer = await client.call(method, target, body)
    assert answer.status == 200, answer.document
    return answer.document


async def test_all_are_listed_in_pages(full):
    """Each once, in order; a page takes milliseconds wherever it is."""
    orchestrator = await full.client("orchestrator")
    found, after, slowest = [], "", 0.0
    while after is not None:
        begun = time.monotonic()
        page = await ask(orchestrator, "GET", f"{LIST}?limit=500{after}")
        slowest = max(slowest, time.monotonic() - begun)
        found += [letter["channel_sequence_id"] for letter in page["dead_letters"]]
        after = page["next"] and f"&after={page['next']}"
    assert found == OPEN
    assert slowest < 1.0
    (group,) = (await ask(orchestrator, "GET", GROUPS))["groups"]
    assert group["count"] == len(OPEN)


async def test_all_are_replayed_as_the_queue_takes_them(full):
    """Page after page, each as far as there is room; their receiver gets every one, once, in the order they were sent,
    and what was resolved stays so."""
    orchestrator, qa = await full.client("orchestrator"), await full.client("qa")
    got, rounds = [], 0
    while len(got) < len(OPEN):
        answer = await ask(orchestrator, "POST", REPLAY, {"recipient": "qa", "limit": 500})
        refused = {outcome["problem"]["type"] for outcome in answer["outcomes"] if "problem" in outcome}
        assert refused <= {"queue-full"}
        rounds += 1
        assert rounds <= len(OPEN)
        for _ in range(1 + rounds % 5):  # a receiver now slower and now faster than the replay
            messages = await qa.poll(count=100)
            got += [message["envelope"]["payload"]["n"] for message in messages]
            if messages:
                assert {message["attempt"] for message in messages} == {2}
                assert (await qa.ack(*(message["delivery_id"] for message in messages))).status == 200
    assert got == OPEN
    assert (await ask(orchestrator, "GET", GROUPS))["groups"] == []
    assert read_store(full.config.adapter_store).census() == {"acked": len(OPEN), "dead": COUNT - len(OPEN)}
