"""What the exchange relies on, of every store engine: the port's words, one test each."""

import pytest

from adapter.core.commands import NewMessage, StoredSend
from adapter.core.dead_letters import Cycle, DeadLetter, closed
from adapter.core.delivery import State
from adapter.core.retention import Lane
from tests.support.engines import RollbackError
from tests.support.factories import delivery, send


def message(number=1, sequence=1, **fields):
    command = send(**fields)
    return NewMessage(number, sequence, 1_000 + number, command, b'{"n":%d}' % number)


def add(engine, *messages, deliveries=()):
    with engine.begin() as store:
        for item in messages:
            store.add_message(item)
        store.save_deliveries(deliveries)
        store.save_sequences({item.send.channel: item.sequence for item in messages}, messages[-1].message_id)


def add_and_fail(engine, item):
    with engine.begin() as store:
        store.add_message(item)
        store.save_deliveries([delivery()])
        store.save_sequences({item.send.channel: item.sequence}, item.message_id)
        raise RollbackError


def fields_of(item):
    skipped = {"before", "after", "batch"}
    return {name: getattr(item, name) for name in item.__slots__ if name not in skipped}


FULL = delivery(
    1, "qa", 2**63 - 1, critical=True, expires_at_us=-5, state=State.DEAD, handovers=3, failures=2, solo=True,
    token="1.3.a", lease_until_us=7, not_before_us=8, reason="refused", detail="wörds", result=b"[1]",  # noqa: S106
    cycles=4,
)  # fmt: skip


def test_a_send_is_found_by_its_key(engine):
    """In its own transaction and in every later one; the key of another sender is another key."""
    stored = message()
    expected = StoredSend(1, stored.send.content_sha256, "product", 1, 1_001)
    with engine.begin() as store:
        assert store.find_send("pm", stored.send.idempotency_key) is None
        store.add_message(stored)
        assert store.find_send("pm", stored.send.idempotency_key) == expected
    with engine.begin() as store:
        assert store.find_send("pm", stored.send.idempotency_key) == expected
        assert store.find_send("qa", stored.send.idempotency_key) is None


def test_an_envelope_is_found_by_place_and_by_id(engine):
    """Byte for byte, before the commit and after."""
    with engine.begin() as store:
        store.add_message(message())
        assert store.envelope_at("product", 1) == b'{"n":1}'
        assert store.envelopes([1]) == {1: b'{"n":1}'}
    with engine.begin() as store:
        store.add_message(message(2, 2))
        assert store.envelopes([1, 2]) == {1: b'{"n":1}', 2: b'{"n":2}'}
        assert store.envelope_at("product", 1) == b'{"n":1}'
        assert store.envelope_at("product", 3) is None
        assert store.envelope_at("platform", 1) is None
        assert store.envelopes([]) == {}


def test_a_message_is_found_by_its_place(engine):
    """In its own transaction and in every later one; of channels that never were, there is none."""
    with engine.begin() as store:
        store.add_message(message(7, 1))
        assert (store.find_message("product", 1), store.find_message("product", 2)) == (7, None)
    with engine.begin() as store:
        assert (store.find_message("product", 1), store.find_message("platform", 1)) == (7, None)
        assert store.find_message("nowhere", 1) is None


def test_a_delivery_comes_back_as_it_was_saved(engine):
    """Every field, the widest numbers included."""
    add(engine, message(), deliveries=[FULL])
    with engine.begin() as store:
        assert fields_of(store.find_delivery(1, "qa")) == fields_of(FULL)
        assert store.find_delivery(1, "pm") is None
        assert store.find_delivery(2, "qa") is None
        assert store.find_delivery(-1, "qa") is None


def test_the_deliveries_of_a_message_are_all_of_them(engine):
    """Settled ones included, and no one else's."""
    rows = [delivery(1, "qa", state=State.ACKED), delivery(1, "pm"), delivery(2, "qa")]
    add(engine, message(1), message(2, 2), deliveries=rows)
    with engine.begin() as store:
        assert {(d.recipient, d.state) for d in store.deliveries_of(1)} == {("qa", State.ACKED), ("pm", State.QUEUED)}
        assert store.deliveries_of(3) == []


def test_saving_again_replaces(engine):
    """One row for each message and recipient."""
    row = delivery(1, "qa")
    add(engine, message(), deliveries=[row])
    row.state, row.token, row.handovers = State.LEASED, "1.1.a", 1
    with engine.begin() as store:
        store.save_deliveries([row])
        assert fields_of(store.find_delivery(1, "qa")) == fields_of(row)
    assert len(list(engine.snapshot().live)) == 1


def test_what_is_saved_does_not_follow_the_object(engine):
    """A row is what it was when it was saved, and changing a row read back changes nothing."""
    row = delivery(1, "qa")
    add(engine, message(), deliveries=[row])
    row.handovers = 9
    with engine.begin() as store:
        store.find_delivery(1, "qa").handovers = 8
        assert store.find_delivery(1, "qa").handovers == 0


def test_nothing_of_a_failed_transaction_remains(engine):
    """Messages, keys, places, deliveries, sequences: all or nothing."""
    stored = message()
    with pytest.raises(RollbackError):
        add_and_fail(engine, stored)
    snapshot = engine.snapshot()
    assert (snapshot.last_message_id, snapshot.sequences.get("product", 0), snapshot.live) == (0, 0, [])
    with engine.begin() as store:
        assert store.find_send("pm", stored.send.idempotency_key) is None
        assert store.envelope_at("product", 1) is None
        assert store.deliveries_of(1) == []


@pytest.mark.parametrize("twin", ["key", "place", "id"])
def test_a_key_a_place_and_an_id_are_taken_once(engine, twin):
    """The store is the last line against a number used twice (nats-server#3006)."""
    first = message(idempotency_key="00000000-0000-4000-8000-000000000000")
    add(engine, first)
    second = {
        "key": message(2, 2, idempotency_key=first.send.envelope["idempotency_key"]),
        "place": message(2, 1),
        "id": message(1, 2),
    }[twin]
    with pytest.raises(Exception, match=r"UNIQUE|taken"):
        add(engine, second)
    assert engine.snapshot().last_message_id == 1


def test_a_snapshot_holds_the_live_deliveries_in_commit_order(engine):
    """Bounded by the queues: what is settled stays in the store."""
    rows = [
        delivery(2, "pm"),
        delivery(1, "qa", state=State.LEASED, token="1.1.a"),  # noqa: S106 - a lease token
        delivery(1, "pm", state=State.ACKED),
        delivery(3, "qa", state=State.DEAD, reason="refused"),
        delivery(3, "pm"),
    ]
    add(engine, message(1), message(2, 2), message(3, 1, to="all-agents"), deliveries=rows)
    snapshot = engine.snapshot()
    assert [(d.message_id, d.recipient) for d in snapshot.live] == [(1, "qa"), (2, "pm"), (3, "pm")]
    assert (snapshot.last_message_id, snapshot.last_accepted_at_us) == (3, 1_003)
    assert {name: last for name, last in snapshot.sequences.items() if last} == {"product": 2, "all-agents": 1}


def test_a_snapshot_of_nothing_is_empty(engine):
    """The first start."""
    snapshot = engine.snapshot()
    assert (snapshot.last_message_id, snapshot.last_accepted_at_us, snapshot.live) == (0, 0, [])
    assert not any(snapshot.sequences.values())


LETTER = DeadLetter(1, "qa", 2, (Cycle("refused", None, 1, 0, -5), Cycle("max-attempts", "w\u00f6rds\n", 4, 3, 2**53)))


def test_a_dead_letter_comes_back_as_it_was_saved(engine):
    """With its whole history, in its own transaction and in every later one; nobody else's."""
    with engine.begin() as store:
        assert store.find_dead_letter(1, "qa") is None
        store.save_dead_letters([LETTER])
        assert store.find_dead_letter(1, "qa") == LETTER
    with engine.begin() as store:
        assert store.find_dead_letter(1, "qa") == LETTER
        assert store.find_dead_letter(1, "pm") is None
        assert store.find_dead_letter(2, "qa") is None
        assert store.find_dead_letter(1, "nobody") is None
        assert store.find_delivery(1, "nobody") is None


def test_a_dead_letter_is_one_record(engine):
    """Saving again replaces it; closing it is saving it (mafintosh/sqs#41)."""
    with engine.begin() as store:
        store.save_dead_letters([LETTER])
    ended = closed(LETTER, "resolved", 9, "by hand")
    with engine.begin() as store:
        store.save_dead_letters([ended])
        store.save_dead_letters([ended, DeadLetter(1, "pm", 1, LETTER.history[:1])])
    with engine.begin() as store:
        assert store.find_dead_letter(1, "qa") == ended
        assert (ended.closure, ended.closed_at_us, ended.note) == ("resolved", 9, "by hand")
        assert store.find_dead_letter(1, "pm").cycles == 1
    replaced = closed(LETTER, "resent", 9, None, ("@pm", 2**53 - 1))
    with engine.begin() as store:
        store.save_dead_letters([replaced])
        assert store.find_dead_letter(1, "qa") == replaced


def retained(store, after=0, limit=100, channel="product"):
    return [(r.message_id, r.channel, r.contract, r.sequence, r.accepted_at_us, r.size, r.in_use)
            for r in store.retained(channel, after, limit)]  # fmt: skip


def test_what_is_retained_is_told_in_order(engine):
    """Behind a sequence, of one channel, with its class, time, size, and whether it is in use."""
    acked, dead = {"state": State.ACKED}, {"state": State.DEAD, "reason": "refused"}
    rows = [
        delivery(1, "qa", **acked), delivery(2, "qa", **acked), delivery(2, "pm"), delivery(3, "qa", **dead),
        delivery(4, "qa", **dead), delivery(5, "qa", state=State.LEASED), delivery(6, "qa", **acked),
    ]  # fmt: skip
    messages = [message(n, n, keep_forever=n == 1) for n in range(1, 6)] + [message(6, 1, to="platform")]
    add(engine, *messages, deliveries=rows)
    letters = [DeadLetter(n, "qa", 1, LETTER.history[:1]) for n in (3, 4)]
    with engine.begin() as store:
        store.save_sequences({"product": 5, "platform": 1}, 6)
        store.save_dead_letters([letters[0], closed(letters[1], "resolved", 9)])
    with engine.begin() as store:
        assert retained(store) == [
            (1, "product", True, 1, 1_001, 7, False),
            (2, "product", False, 2, 1_002, 7, True),
            (3, "product", False, 3, 1_003, 7, True),
            (4, "product", False, 4, 1_004, 7, False),
            (5, "product", False, 5, 1_005, 7, True),
        ]
        assert [row[0] for row in retained(store, 2, 2)] == [3, 4]
        assert [row[0] for row in retained(store, channel="platform")] == [6]
        assert retained(store, channel="all-agents") == []


def test_what_is_pruned_is_forgotten_whole(engine):
    """Message, key, place, deliveries, record: in its transaction and later; others and the numbers stay."""
    first, second = message(1), message(2, 2)
    rows = [delivery(1, "qa", state=State.DEAD, reason="refused"), delivery(2, "qa", state=State.ACKED)]
    add(engine, first, second, deliveries=rows)
    with engine.begin() as store:
        store.save_dead_letters([closed(LETTER, "resolved", 9)])
        store.hold([1])
    with engine.begin() as store:
        assert store.find_send("pm", first.send.idempotency_key) is not None
        store.prune([1])
        assert is_gone(store, first)
    with engine.begin() as store:
        assert is_gone(store, first)
        assert store.find_send("pm", second.send.idempotency_key).message_id == 2
        assert store.find_delivery(2, "qa") is not None
    snapshot = engine.snapshot()
    assert (snapshot.last_message_id, snapshot.sequences["product"], snapshot.last_accepted_at_us) == (2, 2, 1_002)


def is_gone(store, stored):
    return [
        store.find_send("pm", stored.send.idempotency_key), store.envelope_at("product", stored.sequence),
        store.deliveries_of(1), store.find_delivery(1, "qa"), store.find_dead_letter(1, "qa"), store.held(0, 9),
    ] == [None, None, [], None, None, []] and [row[0] for row in retained(store)] == [2]  # fmt: skip


def test_a_key_that_is_forgotten_can_be_used_again(engine):
    """Also in the transaction that forgets it."""
    first = message(1)
    add(engine, first)
    anew = message(2, 2, idempotency_key=first.send.envelope["idempotency_key"])
    with engine.begin() as store:
        store.prune([1])
        store.add_message(anew)
        assert store.find_send("pm", first.send.idempotency_key).message_id == 2
    with engine.begin() as store:
        assert store.find_send("pm", first.send.idempotency_key).message_id == 2
        assert store.envelope_at("product", 1) is None


def test_what_is_held_is_found_again_in_order(engine):
    """Noted once, however often it is; as it is now."""
    add(engine, *(message(n, n) for n in range(1, 5)), deliveries=[delivery(2, "qa")])
    with engine.begin() as store:
        store.hold([2, 4])
        store.hold([2, 3])
    with engine.begin() as store:
        assert [(row.message_id, row.in_use) for row in store.held(0, 9)] == [(2, True), (3, False), (4, False)]
        assert [row.message_id for row in store.held(2, 1)] == [3]


def test_a_snapshot_holds_how_far_retention_has_come(engine):
    """The newest floor of each lane, and the time that was trusted last; nothing before the first pass."""
    fresh = engine.snapshot()
    assert (fresh.floors, fresh.trusted_us, fresh.forgotten_us) == ({}, None, 0)
    notes, contracts = Lane("product", contract=False), Lane("product", contract=True)
    with engine.begin() as store:
        store.save_floor(notes, 1)
        store.save_floor(contracts, 2)
        store.save_retention_clock(3, 1)
    with engine.begin() as store:
        store.save_floor(notes, 4)
        store.save_retention_clock(5, 2)
    snapshot = engine.snapshot()
    assert (snapshot.floors, snapshot.trusted_us, snapshot.forgotten_us) == ({notes: 4, contracts: 2}, 5, 2)


def prune_and_fail(engine):
    with engine.begin() as store:
        store.prune([1])
        store.hold([2])
        store.save_floor(Lane("product", contract=False), 9)
        store.save_retention_clock(9, 9)
        raise RollbackError


def test_nothing_of_a_failed_pruning_remains(engine):
    """All or nothing."""
    add(engine, message(1), message(2, 2), deliveries=[delivery(1, "qa", state=State.ACKED)])
    with pytest.raises(RollbackError):
        prune_and_fail(engine)
    with engine.begin() as store:
        assert [row[0] for row in retained(store)] == [1, 2]
        assert store.find_delivery(1, "qa") is not None
        assert store.held(0, 9) == []
    assert (engine.snapshot().floors, engine.snapshot().trusted_us) == ({}, None)
