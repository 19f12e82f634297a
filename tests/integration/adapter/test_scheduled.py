"""Scheduled messages through a real adapter: sent at their time, seen and cancelled, over kills and restarts."""

import json

import pytest

from shared import api
from shared import scheduled as wire
from shared.link import ROOT
from shared.model import check
from shared.times import iso
from tests.support.deployment import until
from tests.support.factories import new_key
from tests.support.invariant import read_store
from tests.support.link_client import wall_us

LIST = ROOT + wire.PATH


@pytest.fixture
def link(near):
    """Most of what is asked here needs no process of its own."""
    return near


def one(key):
    return ROOT + wire.ONE_PATH.format(idempotency_key=key)


def soon(seconds):
    """An RFC 3339 time from now."""
    return iso(wall_us() + int(seconds * 1e6))


async def schedule(client, to="@qa", seconds=3_600.0, **fields):
    """The answer to a send that is scheduled."""
    outcome = await client.send(to, deliver_at=soon(seconds), **fields)
    assert outcome["code"] == 202, outcome
    check(api.Scheduled, outcome["answer"])
    return outcome["answer"]


async def listed(client, query=""):
    """What `GET /scheduled` tells."""
    answer = await client.call("GET", LIST + query)
    assert answer.status == 200, answer.document
    check(wire.ScheduledPage, answer.document)
    return answer.document


async def test_a_message_is_sent_at_its_time(link):
    """202 with the time; no message before it, and at most a moment after it there is one, once."""
    pm, qa = await link.client("pm"), await link.client("qa")
    answer = await schedule(pm, seconds=0.7, payload={"text": "later"})
    due_us = wall_us() + 700_000
    assert answer["status"] == "scheduled"
    assert read_store(link.config.adapter_store).census() == {}
    (delivery,) = await qa.poll(wait=10)
    assert -50_000 < wall_us() - due_us < 2_000_000
    assert delivery["envelope"]["timestamp_iso8601"] >= delivery["envelope"]["deliver_at"]
    assert (await listed(pm))["scheduled"] == []


async def test_the_same_send_again_is_the_same_appointment(link):
    """Also signed anew; its answer says so, and after its time it is the duplicate of a message."""
    pm, qa = await link.client("pm"), await link.client("qa")
    fields = {"idempotency_key": new_key(), "deliver_at": soon(0.7)}
    first, again = [await pm.send("@qa", **fields) for _ in range(2)]
    assert (first["answer"]["duplicate"], again["answer"]["duplicate"]) == (False, True)
    assert again["answer"]["deliver_at"] == first["answer"]["deliver_at"]
    await qa.poll(wait=10)
    later = await pm.send("@qa", **fields)
    assert (later["code"], later["answer"]["status"], later["answer"]["channel_sequence_id"]) == (200, "duplicate", 1)


async def test_each_sees_its_own_and_the_orchestrator_everybodys(link):
    """In the order of time, with what is needed to tell them apart; another's is nobody else's matter."""
    pm, qa, orchestrator = [await link.client(agent) for agent in ("pm", "qa", "orchestrator")]
    late = await schedule(pm, seconds=7_200, task_id="t1", type="task.assign/1", payload={"title": "x"})
    early = await schedule(qa, "@pm", seconds=3_600)
    mine = await listed(pm)
    assert [entry["idempotency_key"] for entry in mine["scheduled"]] == [late["idempotency_key"]]
    expected = {"sender": "pm", "to": "@qa", "type": "task.assign/1", "task_id": "t1", "status": "scheduled"}
    assert mine["scheduled"][0] | expected == mine["scheduled"][0]
    keys = [entry["idempotency_key"] for entry in (await listed(orchestrator))["scheduled"]]
    assert keys == [early["idempotency_key"], late["idempotency_key"]]
    only = await listed(orchestrator, "?sender=qa")
    assert [entry["sender"] for entry in only["scheduled"]] == ["qa"]
    for method, target in (("GET", LIST + "?sender=qa"), ("DELETE", one(early["idempotency_key"]) + "?sender=qa")):
        refused = await pm.call(method, target)
        assert (refused.status, refused.document["type"]) == (403, "not-permitted")


async def test_pages_tell_all_of_them_once(link):
    """However small, also where many have one time."""
    pm = await link.client("pm")
    at = soon(3_600)
    await pm.submit(*(pm.envelope("@qa", deliver_at=at) for _ in range(7)))
    found, query = [], "?limit=3"
    for _ in range(3):
        page = await listed(pm, query)
        found += [entry["idempotency_key"] for entry in page["scheduled"]]
        query = f"?limit=3&after={page['next']}"
    assert page["next"] is None
    assert len(set(found)) == len(found) == 7


async def test_a_cancelled_message_is_not_sent(link):
    """By its sender; twice is as good as once, and what was sent already is told with its place."""
    pm, qa = await link.client("pm"), await link.client("qa")
    answer = await schedule(pm, seconds=0.8)
    for _ in range(2):
        cancelled = await pm.call("DELETE", one(answer["idempotency_key"]))
        check(wire.CancelledView, cancelled.document)
        assert cancelled.status == 200
    kept = await schedule(pm, seconds=0.8)
    (delivery,) = await qa.poll(wait=10)
    assert delivery["envelope"]["idempotency_key"] == kept["idempotency_key"]
    late = await pm.call("DELETE", one(kept["idempotency_key"]))
    assert (late.status, late.document["type"], late.document["channel_sequence_id"]) == (409, "not-scheduled", 1)


async def test_the_orchestrator_cancels_for_another(link):
    """With the sender named; its own key under that name is another one."""
    pm, orchestrator = await link.client("pm"), await link.client("orchestrator")
    answer = await schedule(pm)
    key = answer["idempotency_key"]
    assert (await orchestrator.call("DELETE", one(key))).status == 404
    assert (await orchestrator.call("DELETE", one(key.upper()) + "?sender=pm")).status == 200
    assert (await listed(pm))["scheduled"] == []


@pytest.mark.parametrize(
    ("method", "target", "status", "field"),
    [
        ("GET", LIST + "?after=x", 422, "query after"),
        ("GET", LIST + "?limit=0", 422, "query limit"),
        ("DELETE", one("x"), 404, "path idempotency_key"),
        ("DELETE", one("00000000-0000-4000-8000-000000000000"), 404, None),
    ],
)
async def test_what_is_no_question_has_a_clear_answer(link, method, target, status, field):
    """With the field that is wrong."""
    answer = await (await link.client("pm")).call(method, target)
    assert (answer.status, answer.document.get("field")) == (status, field)


async def test_what_is_scheduled_survives_a_kill(start):
    """Before its time, and over its time: then it is sent at once by the next process, once."""
    link = await start()
    pm = await link.client("pm")
    over = await schedule(pm, seconds=0.5, payload={"text": "over"})
    ahead = await schedule(pm, seconds=3_600, payload={"text": "ahead"})
    link.kill9_adapter()
    await until(lambda: soon(0) > over["deliver_at"], "its time is over while nothing runs")
    await link.start_adapter()
    qa = await link.client("qa")
    (delivery,) = await qa.poll(wait=10)
    assert delivery["envelope"]["idempotency_key"] == over["idempotency_key"]
    (waiting,) = (await listed(await link.client("pm")))["scheduled"]
    assert waiting["idempotency_key"] == ahead["idempotency_key"]
    assert await qa.poll() == []
    assert link.violations() == []


async def test_what_cannot_be_sent_any_more_is_listed_as_failed(start):
    """Its channel was taken away while it waited: it stays, with the reason, until it is cancelled."""
    link = await start()
    answer = await schedule(await link.client("pm"), "product", seconds=0.5)
    link.kill9_adapter()
    text = link.config_path.read_text()
    link.config_path.write_text(text.replace("[channels.product]", "[channels.renamed]"))
    await link.start_adapter()
    pm = await link.client("pm")

    async def failed():
        return [entry["status"] for entry in (await listed(pm))["scheduled"]] == ["failed"]

    await until(failed, "it has failed")
    (entry,) = (await listed(pm))["scheduled"]
    assert (entry["reason"], entry["to"]) == ("unknown-recipient", "product")
    again = await pm.call("DELETE", one(answer["idempotency_key"]))
    assert again.status == 200
    assert (await listed(pm))["scheduled"] == []


async def test_the_openapi_document_tells_of_it(link):
    """Both calls, and the answer that a send may have."""
    document = json.loads(json.dumps((await (await link.client("pm")).call("GET", "/openapi.json")).document))
    assert set(document["paths"][LIST]) == {"get"}
    assert set(document["paths"][one("{idempotency_key}")]) == {"delete"}
    assert "Scheduled" in document["components"]["schemas"]
