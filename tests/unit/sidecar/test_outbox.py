"""What the outbox promises, on real SQLite."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from shared.clock import Clock
from shared.problems import Problem
from shared.strict_json import encode
from sidecar.core.drafts import Draft
from sidecar.core.link_outcome import Outcome
from sidecar.core.outbox_bounds import OutboxBounds
from sidecar.store.outbox import Outbox, older_than
from sidecar.store.outbox_units import Entry
from sidecar.store.outbox_views import one, refused_page, waiting_page
from sidecar.store.store import Store, open_store
from tests.support.clock import SettableClock, us

_DAY_US = us(86_400)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store in a fresh folder."""
    async with open_store(tmp_path / "sidecar.db") as opened:
        yield opened


def _key(number: int) -> str:
    return str(UUID(int=number))


def _draft(number: int, *, critical: bool = False, payload: object = None) -> Draft:
    kind = "task.cancel/1" if critical else "note/1"
    envelope = {"to": "product", "type": kind, "payload": payload or number, "idempotency_key": _key(number)}
    return Draft(_key(number), envelope, encode(envelope))


def _outbox(store: Store, clock: Clock | None = None, *, entries: int = 10, reserve: int = 0, dead: int = 99) -> Outbox:
    bounds = OutboxBounds(entries, reserve, 14 * _DAY_US, dead)
    return Outbox(store, clock or Clock(), bounds, lambda kind: kind == "task.cancel/1")


async def _head(outbox: Outbox) -> list[Entry]:
    async with outbox.taken(100) as entries:
        return entries


async def _bury(outbox: Outbox, count: int = 1) -> list[str]:
    """Have the adapter refuse the oldest; their keys."""
    entries = (await _head(outbox))[:count]
    await outbox.settle([], [(entry, {"type": "contract-violation"}) for entry in entries])
    return [entry.draft.key for entry in entries]


def _kind(outcome: Outcome) -> str:
    return (outcome.problem or {})["type"]


async def test_the_outbox_is_occupied_from_the_first_moment(store: Store) -> None:
    """A send that is on its way in counts before it is committed, even when its caller has gone."""
    outbox = _outbox(store)
    outbox.add(_draft(1)).cancel()
    assert outbox.occupied
    await store.settled()
    entries = await _head(outbox)
    assert [entry.draft.key for entry in entries] == [_key(1)]
    assert outbox.depth == 1
    await outbox.settle(entries, [])
    assert not outbox.occupied


async def test_depth_is_exact_across_settling_and_reloading(store: Store) -> None:
    """Additions that commit while others are settled are counted, and a new process counts the same."""
    outbox = _outbox(store, entries=1_000)
    for number in range(50):
        await outbox.add(_draft(number))
    entries = await _head(outbox)
    waiting = [outbox.add(_draft(number)) for number in range(50, 60)]
    await outbox.settle(entries[:40], [(entries[40], {"type": "expired"})])
    assert [(await future).code for future in waiting] == [202] * 10
    assert (outbox.depth, outbox.dead) == (19, 1)
    again = _outbox(store, entries=1_000)
    await again.load()
    assert (again.depth, again.dead, again.oldest_us) == (19, 1, entries[41].queued_at_us)
    assert [entry.draft.key for entry in await _head(again)] == [_key(number) for number in range(41, 60)]


async def test_what_has_waited_too_long_is_overdue(store: Store) -> None:
    """More than the days it may; which of those are too old to send is the adapter's to say, give or take an hour."""
    clock = SettableClock()
    outbox = _outbox(store, clock)
    await outbox.add(_draft(1))
    clock.advance(3_600)
    await outbox.add(_draft(2))
    entries = await _head(outbox)
    assert outbox.overdue(entries) == []
    clock.advance(14 * 86_400 - 3_599)
    assert outbox.overdue(entries) == entries[:1]
    clock.step_wall(40 * 86_400)
    assert outbox.overdue(entries) == entries
    first_us, second_us = (entry.queued_at_us for entry in entries)
    assert older_than(entries, first_us - us(3_600)) == []
    assert older_than(entries, second_us - us(3_600)) == entries[:1]
    assert older_than(entries, second_us) == entries


async def test_the_last_places_are_for_critical_sends(store: Store) -> None:
    """Others are refused before them, with how full it is; critical ones fill it to the end."""
    outbox = _outbox(store, entries=4, reserve=2)
    normal = [await outbox.add(_draft(number)) for number in range(3)]
    critical = [await outbox.add(_draft(number, critical=True)) for number in range(10, 13)]
    assert [outcome.code for outcome in normal] == [202, 202, 503]
    assert [outcome.code for outcome in critical] == [202, 202, 503]
    problem = normal[2].problem or {}
    assert (problem["type"], problem["outbox_depth"], problem["outbox_max"]) == ("outbox-full", 2, 4)
    assert problem["retry_after"] > 0
    assert "critical" in problem["detail"]
    assert "critical" not in (critical[2].problem or {})["detail"]
    assert (await outbox.add(_draft(0))).code == 202  # what has its place keeps it


async def test_nothing_is_sent_that_could_not_be_kept(store: Store) -> None:
    """A batch is no larger than the room for refused ones, and with none the outbox has stopped, until there is."""
    outbox = _outbox(store, dead=3)
    for number in range(5):
        await outbox.add(_draft(number))
    await _bury(outbox, 2)
    assert not outbox.is_stopped
    assert [entry.draft.key for entry in await _head(outbox)] == [_key(2)]
    await _bury(outbox)
    assert outbox.is_stopped
    assert await _head(outbox) == []
    await outbox.drop(_key(0))
    assert [entry.draft.key for entry in await _head(outbox)] == [_key(3)]


async def test_a_refused_send_goes_behind_all_that_wait(store: Store) -> None:
    """Under its own key; asked twice, it is one entry. What was never refused is not found."""
    outbox = _outbox(store)
    for number in range(3):
        await outbox.add(_draft(number))
    (key,) = await _bury(outbox)
    for _ in range(2):
        outcome = await outbox.resend(key, None)
        assert outcome.answer == {"status": "queued", "outbox_position": 3, "idempotency_key": key}
    assert (outbox.depth, outbox.dead) == (3, 0)
    assert [entry.draft.key for entry in await _head(outbox)] == [_key(1), _key(2), key]
    assert _kind(await outbox.resend(_key(77), None)) == "not-found"


async def test_a_refused_send_may_go_as_another_message(store: Store) -> None:
    """The new key stands in the message too; asked twice with it, it is one entry."""
    outbox = _outbox(store)
    await outbox.add(_draft(1))
    await _bury(outbox)
    for _ in range(2):
        assert (await outbox.resend(_key(1), _key(9))).code == 202
    (entry,) = await _head(outbox)
    assert (entry.draft.key, entry.draft.envelope["idempotency_key"]) == (_key(9), _key(9))
    assert entry.draft.envelope["payload"] == 1
    assert (outbox.depth, outbox.dead) == (1, 0)


async def test_a_refused_send_stays_where_it_is_while_there_is_no_room(store: Store) -> None:
    """And where its new key is taken by other content: it is never in none of both places."""
    outbox = _outbox(store, entries=2)
    await outbox.add(_draft(1))
    await _bury(outbox)
    for number in (2, 3):
        await outbox.add(_draft(number))
    assert _kind(await outbox.resend(_key(1), None)) == "outbox-full"
    assert _kind(await outbox.resend(_key(1), _key(2))) == "idempotency-conflict"
    assert (outbox.depth, outbox.dead) == (2, 1)


async def test_a_key_is_in_one_place_only(store: Store) -> None:
    """A send that is repeated takes up the refused one; under its key nothing else can hide it."""
    outbox = _outbox(store)
    await outbox.add(_draft(1))
    await _bury(outbox)
    other = await outbox.add(_draft(1, payload="other"))
    assert (_kind(other), (other.problem or {})["field"]) == ("idempotency-conflict", "/idempotency_key")
    assert (outbox.depth, outbox.dead) == (0, 1)
    assert (await outbox.add(_draft(1))).code == 202
    assert (outbox.depth, outbox.dead) == (1, 0)


async def test_what_is_in_flight_is_not_dropped(store: Store) -> None:
    """Whatever waits or was refused can be; what is just being sent cannot, and can again when it was not taken."""
    outbox = _outbox(store)
    for number in range(3):
        await outbox.add(_draft(number))
    async with outbox.taken(1) as (entry,):
        assert outbox.is_in_flight(entry.id)
        with pytest.raises(Problem, match="in-flight"):
            await outbox.drop(_key(0))
        assert (await outbox.drop(_key(1))).was == "waiting"
    assert (await outbox.drop(_key(0))).was == "waiting"
    await _bury(outbox)
    assert (await outbox.drop(_key(2))).was == "dead"
    with pytest.raises(Problem, match="not-found"):
        await outbox.drop(_key(2))
    assert (outbox.depth, outbox.dead, outbox.occupied) == (0, 0, False)


async def test_a_drop_and_a_drain_never_have_the_same_entry(store: Store) -> None:
    """Both asked for at once: whoever comes first has it."""
    outbox = _outbox(store)
    await outbox.add(_draft(1))
    dropping = asyncio.ensure_future(outbox.drop(_key(1)))
    async with outbox.taken(1) as entries:
        (dropped,) = await asyncio.gather(dropping, return_exceptions=True)
        assert isinstance(dropped, Problem) == bool(entries)


async def test_pages_are_in_order_and_go_on_where_they_ended(store: Store) -> None:
    """Positions count from the head whatever has left meanwhile; a refused one has its problem."""
    clock = SettableClock()
    outbox = _outbox(store, clock)
    for number in range(6):
        await outbox.add(_draft(number, critical=number == 4))
    await _bury(outbox, 2)
    first, page = await waiting_page(store, 0, 3)
    assert (first, [row.key for row in page]) == (1, [_key(2), _key(3), _key(4)])
    assert page[2].type == "task.cancel/1"
    await outbox.drop(_key(2))
    first, rest = await waiting_page(store, page[-1].id, 3)
    assert (first, [row.key for row in rest]) == (3, [_key(5)])
    dead = await refused_page(store, 0, 10)
    assert [(row.key, row.problem) for row in dead] == [(_key(n), b'{"type":"contract-violation"}') for n in (0, 1)]
    assert await refused_page(store, dead[-1].id, 10) == []
    waiting, refused = await one(store, _key(5)), await one(store, _key(1))
    assert waiting is not None
    assert refused is not None
    assert (waiting.position, waiting.problem, refused.position) == (3, None, None)
    assert await one(store, _key(99)) is None
