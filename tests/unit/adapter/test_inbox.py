"""Marking the Governor's messages as read."""

from adapter.core.commands import MarkRead
from shared.names import GOVERNOR
from tests.support.clock import us
from tests.support.factories import START_US

TO = "@human-governor"


def test_reading_out_of_turn_leaves_the_line_whole(bench):
    """What stands before and after a message that is read is handed out as ever (promise 3)."""
    for _ in range(4):
        bench.send(to=TO)
    assert bench.do(MarkRead((2,))) == [2]
    assert bench.row(2, GOVERNOR).state.word == "acked"
    assert bench.row(2, GOVERNOR).handovers == 1
    assert [handed.delivery_id.partition(".")[0] for handed in bench.poll(GOVERNOR)] == ["1", "3", "4"]


def test_only_the_governors_own_are_read(bench):
    """Messages for others, dead ones, and numbers that nothing has are left alone."""
    bench.send(to="@qa")
    bench.send(to=TO, expires_at_us=START_US + us(1))
    bench.send(to=TO)
    bench.wait(2)
    assert bench.states(2) == {GOVERNOR: "dead"}
    assert bench.do(MarkRead((1, 2, 3, 99, 3))) == [3, 3]
    assert (bench.states(1), bench.states(2), bench.states(3)) == (
        {"qa": "queued"}, {GOVERNOR: "dead"}, {GOVERNOR: "acked"},
    )  # fmt: skip


def test_a_restart_keeps_what_was_read(bench):
    """It is in the store."""
    bench.send(to=TO)
    bench.send(to=TO)
    bench.do(MarkRead((1,)))
    bench.restart()
    assert bench.exchange.depths()[GOVERNOR] == 1
    assert bench.do(MarkRead((1,))) == [1]
