"""Scheduled messages in the client, with and without `async`."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from multiclaw import InvalidMessage, SyncAgent

LATER = datetime(2027, 1, 15, 8, tzinfo=UTC)
KEY = "018bcfe5-687b-7000-8000-000000000001"


async def test_a_send_for_later_has_its_own_receipt(agent, sidecar):
    """The time travels as text with an offset, and the receipt tells it as the adapter took it."""
    receipt = await agent.send("@pm", "note/1", 1, deliver_at=LATER)
    assert sidecar.bodies("/v1/messages")[0]["deliver_at"] == "2027-01-15T08:00:00+00:00"
    assert (receipt.status, receipt.deliver_at, receipt.sequence) == ("scheduled", "2027-01-15T08:00:00+00:00", None)
    (again,) = await agent.send_many(
        [{"to": "@pm", "type": "note/1", "payload": 2, "deliver_at": "2027-01-15T08:00:00Z"}]
    )
    assert again.status == "scheduled"


async def test_a_time_without_an_offset_is_refused_before_anything_is_sent(agent, sidecar):
    """With the field that is wrong."""
    with pytest.raises(InvalidMessage) as refusal:
        await agent.send("@pm", "note/1", 1, deliver_at=LATER.replace(tzinfo=None) + timedelta(days=1))
    assert refusal.value.field == "/deliver_at"
    assert sidecar.bodies("/v1/messages") == []


async def test_what_is_scheduled_is_listed_and_cancelled(agent, sidecar):
    """The filters and the sender travel; None is left out."""
    await agent.scheduled(sender="pm", limit=7, after="a.1")
    await agent.scheduled()
    await agent.cancel_scheduled(KEY)
    await agent.cancel_scheduled(KEY, sender="pm")
    asked = [(call.method, call.path, call.query) for call in sidecar.calls]
    assert asked == [
        ("GET", "/v1/scheduled", {"sender": "pm", "limit": "7", "after": "a.1"}),
        ("GET", "/v1/scheduled", {"limit": "100"}),
        ("DELETE", f"/v1/scheduled/{KEY}", {}),
        ("DELETE", f"/v1/scheduled/{KEY}", {"sender": "pm"}),
    ]


async def test_plain_code_has_the_same_calls(sidecar):
    """As `Agent`, without `async`."""

    def work():
        with SyncAgent("qa", socket=sidecar.path) as agent:
            receipt = agent.send("@pm", "note/1", 1, deliver_at=LATER)
            return receipt.status, agent.scheduled(), agent.cancel_scheduled(KEY)

    status, page, cancelled = await asyncio.wait_for(asyncio.to_thread(work), 20)
    assert (status, page, cancelled) == (
        "scheduled", {"asked": "/v1/scheduled"}, {"asked": f"/v1/scheduled/{KEY}"},
    )  # fmt: skip
