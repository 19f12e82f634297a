"""What is packed: the same queue, of which the far part are numbers."""

from collections.abc import Iterator

import pytest

from adapter.core.backlog import CHUNK, Backlog
from adapter.core.commands import MarkRead
from adapter.core.delivery import Delivery, State, Waiting
from adapter.core.mailbox import OBJECTS_MIN, Mailbox
from shared.names import GOVERNOR, direct_channel
from tests.support.engines import SqliteEngine, ask
from tests.support.factories import claim as claim_of
from tests.support.factories import delivery, exchange, now, send
from tests.support.packing import packing


@pytest.fixture(autouse=True)
def _packed_early() -> Iterator[None]:
    """All but the first of what waits is packed, two at a time."""
    with packing(1):
        yield


def waiting(number: int, key: int = 1, expires_at_us: int | None = None, *, critical: bool = False) -> Waiting:
    """One that waits."""
    return Waiting(number, "qa", key, critical, expires_at_us)


def mailbox(*numbers: int) -> Mailbox:
    """A mailbox with these in one line."""
    box = Mailbox("qa")
    for number in numbers:
        box.wait(waiting(number))
    return box


def claim(box: Mailbox, count: int = 10) -> list[int]:
    """The numbers of a batch."""
    handed, _ = box.claim(count, 0, 30, lambda d: f"{d.message_id}.{d.handovers}.{count}")
    return [d.message_id for d in handed]


def test_what_is_packed_comes_out_as_it_went_in() -> None:
    """Every field of every one, in order, whatever their number."""
    known = [waiting(n, n % 3, None if n % 4 else n - 2**40, critical=n % 2 == 0) for n in range(1, 8)]
    backlog = Backlog("qa")
    for each in known:
        backlog.append(each)
    assert (list(backlog), len(backlog), backlog.oldest()) == (known, 7, 1)
    out = [each for _ in range(4) for each in backlog.pop()]
    assert out == known
    assert [type(each.critical) for each in out] == [bool] * 7
    assert (list(backlog), len(backlog), dict(backlog.lines)) == ([], 0, {})


def test_the_whole_of_a_delivery_is_packed_only_before_anything_happens_to_it() -> None:
    """Who was handed out, failed or died has a past that would be lost."""
    fresh = delivery(3, expires_at_us=7, critical=True)
    assert fresh.waiting == Waiting(3, "qa", 1, True, 7)
    assert Delivery(*fresh.waiting).waiting == fresh.waiting
    for past in ({"state": State.LEASED}, {"handovers": 1}, {"cycles": 1}, {"state": State.DEAD}):
        assert delivery(3, **past).waiting is None


def test_a_batch_goes_on_behind_its_objects() -> None:
    """It is filled from the backlog, where nothing but itself is in front."""
    box = mailbox(1, 2, 3, 4, 5, 6)
    assert claim(box, 4) == [1, 2, 3, 4]
    assert box.depth == 6


def test_a_poll_that_finds_nothing_brings_nothing_up() -> None:
    """While the head of a line is out, its backlog stays packed, however often somebody asks."""
    box = mailbox(*range(1, 101))
    assert claim(box, 1) == [1]
    objects = len(box.live)
    assert [claim(box) for _ in range(5)] == [[]] * 5
    assert len(box.live) == objects < 5
    box.wait(waiting(101, key=2))
    assert claim(box, 1) == [101]


def test_one_that_was_out_stands_behind_what_is_packed() -> None:
    """As it does when a restart reads them in commit order."""
    box = mailbox(1, 2, 3)
    box.add(delivery(4, state=State.LEASED, lease_until_us=30, handovers=1))
    assert claim(box) == [1, 2, 3]
    assert box.depth == 4


def test_a_replayed_one_takes_its_place_among_what_is_packed() -> None:
    """Its place is that of its message, also where nothing around it is an object."""
    box = mailbox(1, 2, 3, 5, 6)
    box.revive(delivery(4, state=State.DEAD, cycles=1))
    assert claim(box) == [1, 2, 3, 4, 5, 6]


def test_a_mailbox_whose_objects_are_out_may_still_have_some_that_wait() -> None:
    """Somebody who holds the head of a long line and never polls again is missed all the same."""
    box = mailbox(1, 2, 3)
    claim(box, 1)
    assert all(each.state is State.LEASED for each in box.live.values())
    assert box.waits
    for each in range(1, 4):
        found = box.find(each)
        assert found is not None
        box.take(found)
    assert not box.waits


def test_a_letter_far_back_can_be_read_out_of_turn(bench) -> None:
    """The Human Governor reads what it likes, and what stands before it stays."""
    for _ in range(4):
        bench.send("pm", direct_channel(GOVERNOR))
    assert bench.do(MarkRead((4,))) == [4]
    assert (bench.exchange.depths()[GOVERNOR], bench.row(4, GOVERNOR).state) == (3, State.ACKED)
    assert bench.do(MarkRead((4, 1))) == [4, 1]


def test_what_is_packed_and_comes_up_in_one_group_is_stored_once_and_whole() -> None:
    """Its row is new though its object is another: it is inserted, as it stands at the end of the group."""
    engine = SqliteEngine()
    ask(exchange(), engine, now(), *(send(to="@qa") for _ in range(4)), claim_of("qa"))
    with engine.begin() as store:
        rows = [store.find_delivery(number, "qa") for number in range(1, 5)]
    engine.close()
    assert [row and (row.state, row.handovers) for row in rows] == [(State.LEASED, 1)] * 4


def test_a_hand_over_fits_the_objects() -> None:
    """In earnest: a hand-over and the next need no look at the backlog."""
    with packing(OBJECTS_MIN, CHUNK):
        box = mailbox(*range(1, 2 * CHUNK + 2))
        assert len(claim(box, CHUNK)) == CHUNK
        assert len(box.live) == 2 * CHUNK
