"""The checker of the invariant bites: a sound store has no violation, and each way of spoiling it has its words."""

import json
import sqlite3
from contextlib import closing

import pytest

from adapter.core.commands import Ack
from tests.support.engines import SqliteEngine, ask
from tests.support.factories import claim, exchange, now, send, topology
from tests.support.invariant import History, read_store, violations
from tests.support.store_hand import as_sent

MEMBERS = topology().members


class Played:
    """A short, sound conversation: its history and the store it left."""

    def __init__(self, path):
        self.path = path
        self.history = History()
        engine = SqliteEngine(str(path))
        broker = exchange()
        for number in range(3):
            command = send(to="product", task_id=f"t{number}", payload={"b": number, "a": [1.5, "ü"]})
            (sent,) = ask(broker, engine, now(number), command)
            answer = {
                "channel_sequence_id": sent.sequence,
                "timestamp_iso8601": f"2027-01-15T08:00:0{number}.000000Z",
            }
            self.history.sent("pm", command.envelope, 201, answer)
        (handed,) = ask(broker, engine, now(5), claim("qa"))
        messages = [
            {"delivery_id": h.delivery_id, "attempt": h.attempt, "envelope": json.loads(h.envelope)} for h in handed
        ]
        self.history.received("qa", messages)
        for message in messages[:2]:
            self.history.apply("qa", message["envelope"])
        ask(broker, engine, now(6), Ack("qa", tuple(m["delivery_id"] for m in messages[:2]), {}))
        engine.close()

    def spoil(self, statement):
        """One statement, behind everybody's back."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.create_function("as_sent", 1, as_sent)
            changed = connection.execute(statement).rowcount
        assert changed > 0, "the test spoiled nothing"

    @property
    def violations(self):
        """What the checker says."""
        return violations(self.history, self.path, MEMBERS)


@pytest.fixture
def played(tmp_path):
    return Played(tmp_path / "store.db")


def test_a_sound_store_has_no_violation(played):
    """And the census adds up: three messages for six agents."""
    assert played.violations == []
    assert read_store(played.path).census() == {"queued": 15, "leased": 1, "acked": 2}


SET = "UPDATE messages SET envelope = CAST(json_set(CAST(as_sent(envelope) AS TEXT), {}) AS BLOB) WHERE id = 2"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM deliveries WHERE message_id = 2 AND recipient_id = 4", "in none of queued, leased, acked, dead"),
        ("DELETE FROM messages WHERE id = 2", "is not in the store"),
        ("DELETE FROM messages WHERE id = 2", "deliveries have no message"),
        ("DELETE FROM messages WHERE id = 3", "sequences in commit order are [1, 2], not 1..3"),
        ("UPDATE messages SET sequence = 9 WHERE id = 2", "sequences in commit order"),
        ("UPDATE messages SET sequence = 9 WHERE id = 2", "was told product 2 and stands at product 9"),
        ("UPDATE messages SET channel_id = channel_id + 1 WHERE id = 3", "is no recipient"),
        ("UPDATE channels SET last_sequence = 2 WHERE last_sequence = 3", "not 1..2"),
        ("UPDATE deliveries SET state = 7 WHERE message_id = 1 AND recipient_id = 4", "unknown state 7"),
        ("UPDATE deliveries SET state = 3 WHERE message_id = 1 AND recipient_id = 4", "dead with the reason None"),
        ("UPDATE deliveries SET token = NULL WHERE state = 1", "leased without a token"),
        ("UPDATE messages SET accepted_at_us = accepted_at_us + 9000000 WHERE id = 2", "is before that of product 2"),
        ("UPDATE messages SET sender_id = 3 WHERE id = 2", "is not in the store"),
        (SET.format("'$.payload.b', 7"), "its payload has changed"),
        (SET.format("'$.payload.b', 1.0"), "its payload has changed"),
        (SET.format("'$.surprise', 1"), "it has gained ['surprise']"),
        (SET.format("'$.task_id', 't9'"), "its task_id has changed"),
        (SET.format("'$.sender', 'qa'"), "its sender is 'qa' and was 'pm'"),
        (SET.format("'$.to', 'platform'"), "the stored envelope says platform 2"),
        (SET.format("'$.timestamp_iso8601', '2027-01-15T08:00:01.500000Z'"), "not the one the sender was told"),
        (SET.replace("json_set", "json_remove").format("'$.task_id'"), "it has lost task_id"),
        (SET.format("'$.payload.b', 7"), "got other content than is stored"),
    ],
)
def test_each_way_of_spoiling_the_store_has_its_words(played, statement, words):
    """What was acknowledged is compared, not only counted."""
    played.spoil(statement)
    assert any(words in violation for violation in played.violations), played.violations


def test_a_changed_order_of_keys_is_a_change(played):
    """Content arrives as it was written."""
    played.spoil(SET.format("""'$.payload', json('{"a":[1.5,"ü"],"b":1}')"""))
    assert "product 2: its payload has changed" in played.violations


def again(history):
    first = history.acked[0]
    history.sent("pm", {**first.content, "idempotency_key": "00000000-0000-4000-8000-000000000000"}, 201, {
        "channel_sequence_id": 1, "timestamp_iso8601": first.timestamp,
    })  # fmt: skip


def moved(history):
    first = history.acked[0]
    history.sent("pm", first.content, 200, {"channel_sequence_id": 3, "timestamp_iso8601": first.timestamp})


def applied_twice(history):
    history.applied.append(history.applied[0])


def applied_in_disorder(history):
    history.handed = [history.handed[2], *history.handed[:2]]


def refused(history):
    history.refused.append(history.acked.pop().identity)


def reused_token(history):
    history.handed.append(history.handed[0])


def lost_in_the_outbox(history):
    key = "00000000-0000-4000-8000-000000000001"
    history.sent("pm", {"to": "product", "type": "note/1", "payload": 1, "idempotency_key": key}, 202, {})


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (again, "was given to 2 different sends"),
        (moved, "was told different sequences: [1, 3]"),
        (applied_twice, "2 times"),
        (refused, "it was refused to pm and is in the store"),
        (reused_token, "was used 2 times"),
        (lost_in_the_outbox, "is not in the store"),
    ],
)
def test_a_history_that_does_not_fit_has_its_words(played, tamper, words):
    """Both sides of the conversation are held against the store."""
    tamper(played.history)
    assert any(words in violation for violation in played.violations), played.violations


def test_messages_of_one_line_in_disorder_are_told(tmp_path):
    """A hand-over and an application that overtook an earlier one of their line; other lines may flow past."""
    played = Played(tmp_path / "store.db")
    applied_in_disorder(played.history)
    played.history.applied.reverse()
    assert played.violations == []
    played.spoil(SET.replace("json_set", "json_remove").format("'$.task_id'").partition(" WHERE")[0])
    assert "qa got product 3 before product 1 (channel product)" in played.violations
    assert "qa applied product 2 before product 1 (channel product)" in played.violations


def test_a_send_that_was_queued_has_no_place_yet(played):
    """A 202 promises the message, not its number."""
    sent = played.history.acked.pop()
    played.history.sent("pm", sent.content, 202, {"idempotency_key": sent.key})
    assert played.violations == []


def test_an_unknown_outcome_binds_nobody(played):
    """After a 503 the message may be there or not."""
    sent = played.history.acked.pop()
    played.history.sent("pm", sent.content, 503, {})
    assert played.violations == []
