"""Marking the Governor's messages as read."""

import pytest

from adapter.core.commands import Announced, MarkRead
from adapter.core.notice import notice_of, retry_seconds
from shared.names import GOVERNOR
from shared.strict_json import encode
from tests.support.clock import us
from tests.support.factories import START_US, envelope

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


def test_a_mark_does_not_go_back(bench):
    """Each way has its own; a restart keeps them (promise 6)."""
    assert bench.do(Announced("journal")) is None
    assert bench.do(Announced("journal", 0)) == 0
    assert [bench.do(Announced("journal", n)) for n in (3, 2, 3)] == [3, 3, 3]
    assert bench.do(Announced("webhook")) is None
    bench.restart()
    assert bench.do(Announced("journal")) == 3


@pytest.mark.parametrize(
    ("payload", "summary"),
    [({"summary": "help"}, "help"), ({"summary": 7}, "note/1 from pm"), ({"summary": ""}, "note/1 from pm"),
     ("text", "note/1 from pm"), ({"summary": "x" * 2_000}, "x" * 1_000)],
)  # fmt: skip
def test_a_notice_is_summed_up(payload, summary):
    """In its own words where it has any, and never at any length."""
    notice = notice_of(7, encode(envelope(to=TO, payload=payload)))
    assert (notice.sequence, notice.sender, notice.summary) == (7, "pm", summary)
    assert notice.document()["channel"] == TO


def test_a_way_is_tried_again_for_ever_and_at_least_every_five_minutes():
    """Seconds at first."""
    assert [retry_seconds(n) for n in (1, 2, 3, 10, 10**6)] == [1, 2, 4, 300, 300]
