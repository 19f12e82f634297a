"""Replay jobs through a real adapter: started, watched and cancelled by the orchestrator; a kill in the middle."""

import asyncio
from uuid import uuid4

import pytest

from shared import dead_letters, replays
from shared.link import ROOT
from shared.model import check
from tests.integration.adapter.conftest import Link
from tests.support.deployment import until
from tests.support.invariant import read_store

JOBS = ROOT + replays.REPLAYS_PATH
LIST = ROOT + dead_letters.PATH


def path(job_id):
    return ROOT + replays.ONE_REPLAY_PATH.format(id=job_id)


async def kill(link: Link, count, agent="qa"):
    """So many messages from pm that their recipient refuses."""
    pm, receiver = await link.client("pm"), await link.client(agent)
    for start in range(0, count, 100):
        some = range(start, min(count, start + 100))
        await pm.submit(*(pm.envelope(f"@{agent}", payload={"n": n}) for n in some))
        for message in await receiver.poll(count=100):
            assert (await receiver.nack(message["delivery_id"], "refuse", "no")).status == 200


async def start(client, status=201, **asked):
    answer = await client.call("POST", JOBS, asked)
    assert answer.status == status, answer.document
    check(replays.ReplayJobView, answer.document)
    return answer.document


async def look(client, job_id):
    answer = await client.call("GET", path(job_id))
    assert answer.status == 200, answer.document
    check(replays.ReplayJobView, answer.document)
    return answer.document


async def ended(client, job_id):
    """The job, once it runs no more."""
    found = {}

    async def over():
        found.update(await look(client, job_id))
        return found["state"] != "running"

    await until(over, "the job has ended")
    return found


async def test_a_job_is_started_watched_and_done(near):
    """It tells what it was asked for and how far it is; what it replays is handed over in order."""
    await kill(near, 30)
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    job = await start(orchestrator, recipient="qa", reason="refused", limit=25)
    assert (job["state"], job["matched"], job["remaining"], job["rate"]) == ("running", 30, 25, None)
    done = await ended(orchestrator, job["id"])
    told = {name: done[name] for name in ("state", "replayed", "refused", "remaining", "waiting")}
    assert told == {"state": "done", "replayed": 25, "refused": 0, "remaining": 0, "waiting": []}
    assert done["ended_at"] >= done["created_at"] >= done["cut_off"]
    assert [message["envelope"]["payload"]["n"] for message in await qa.poll(count=100)] == list(range(25))
    listed = await orchestrator.call("GET", JOBS)
    check(replays.ReplayJobs, listed.document)
    assert listed.document["replays"] == [done]


async def test_a_job_is_cancelled(near):
    """What is replayed stays so; what is left stays dead; cancelling once more says the same."""
    await kill(near, 5)
    orchestrator = await near.client("orchestrator")
    job = await start(orchestrator, rate=0.001)
    await until(lambda: read_store(near.config.adapter_store).census()["dead"] == 4, "the first is replayed")
    first = await orchestrator.call("DELETE", path(job["id"]))
    second = await orchestrator.call("DELETE", path(job["id"]))
    assert (first.status, first.document["state"], first.document["replayed"]) == (200, "cancelled", 1)
    assert second.document == first.document == await look(orchestrator, job["id"])
    assert read_store(near.config.adapter_store).census()["dead"] == 4


async def test_a_job_asked_for_twice_is_one(near):
    """201, then 200 for the same id; other words under it are a conflict."""
    await kill(near, 3)
    orchestrator, job_id = await near.client("orchestrator"), str(uuid4())
    first = await start(orchestrator, id=job_id, rate=0.001)
    again = await start(orchestrator, 200, id=job_id.upper(), rate=0.001)
    assert (again["id"], again["created_at"]) == (job_id, first["created_at"])
    other = await orchestrator.call("POST", JOBS, {"id": job_id})
    assert (other.status, other.document["type"]) == (422, "idempotency-conflict")


async def test_jobs_at_once_are_bounded(near):
    """429 with what to do; a cancelled one makes room."""
    await kill(near, 1)
    orchestrator = await near.client("orchestrator")
    await kill(near, 5)
    jobs = [await start(orchestrator, rate=0.001) for _ in range(4)]
    refused = await orchestrator.call("POST", JOBS, {})
    assert (refused.status, refused.document["type"], refused.document["retryable"]) == (429, "too-many-replays", True)
    assert "Retry-After" in refused.headers
    await orchestrator.call("DELETE", path(jobs[0]["id"]))
    await start(orchestrator)


async def test_jobs_are_the_orchestrators(near):
    """Every call."""
    pm = await near.client("pm")
    for method, target, body in (
        ("POST", JOBS, {}), ("GET", JOBS, None), ("GET", path("x"), None), ("DELETE", path("x"), None),
    ):  # fmt: skip
        answer = await pm.call(method, target, body)
        assert (answer.status, answer.document["type"]) == (403, "not-permitted"), target


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rate": 0}, "/rate"), ({"rate": -1}, "/rate"), ({"rate": 1e9}, "/rate"), ({"limit": 0}, "/limit"),
        ({"limit": 1.5}, "/limit"), ({"id": "x"}, "/id"), ({"cut_off": "now"}, "/cut_off"),
        ({"reason": "x"}, "/reason"), ({"dry_run": True}, "/dry_run"), ({"recipient": "Q A"}, "/recipient"),
    ],
)  # fmt: skip
async def test_what_is_no_question_is_refused(near, body, field):
    """With the place of the fault; and nothing was started."""
    orchestrator = await near.client("orchestrator")
    answer = await orchestrator.call("POST", JOBS, body)
    assert (answer.status, answer.document["field"]) == (422, field), answer.document
    assert (await orchestrator.call("GET", JOBS)).document == {"replays": []}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_is_not_there_is_not_found(near, method):
    """Whatever name is asked for."""
    orchestrator = await near.client("orchestrator")
    for name in (str(uuid4()), "x", "%00", "@qa"):
        assert (await orchestrator.call(method, path(name))).status == 404, name


async def test_a_job_and_a_replay_by_hand_give_one_delivery(near):
    """Both at once, over the same letters."""
    await kill(near, 40)
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    by_hand = ROOT + dead_letters.REPLAY_PATH
    job, *answers = await asyncio.gather(
        start(orchestrator), *(orchestrator.call("POST", by_hand, {"limit": 15}) for _ in range(4))
    )
    done = await ended(orchestrator, job["id"])
    assert done["replayed"] + sum(answer.document["replayed"] for answer in answers) == 40
    assert sorted(message["envelope"]["payload"]["n"] for message in await qa.poll(count=100)) == list(range(40))
    assert near.violations() == []


async def test_a_job_outlives_kills(link):
    """It goes on where it was, five times over: each letter is replayed once, and none is forgotten."""
    await kill(link, 100)
    orchestrator = await link.client("orchestrator")
    job = await start(orchestrator, rate=100)
    for count in (5, 20, 30, 50, 70):
        await until(lambda count=count: read_store(link.config.adapter_store).census()["queued"] >= count, "it goes on")
        link.adapter.kill9()
        await link.start_adapter()
    orchestrator, qa = await link.client("orchestrator"), await link.client("qa")
    done = await ended(orchestrator, job["id"])
    assert (done["state"], done["replayed"], done["refused"]) == ("done", 100, 0)
    handed = await qa.poll(count=100)
    assert [(message["envelope"]["payload"]["n"], message["attempt"]) for message in handed] == [
        (n, 2) for n in range(100)
    ]
    assert (await orchestrator.call("GET", LIST)).document["dead_letters"] == []
    assert link.violations() == []
