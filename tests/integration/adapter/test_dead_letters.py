"""Dead letters through a real adapter: seen, replayed and resolved by the orchestrator, and told of on `platform`."""

import asyncio
from urllib.parse import quote

import pytest

from shared import dead_letters as wire
from shared.link import ROOT
from shared.model import check
from shared.times import iso
from tests.support.deployment import until
from tests.support.invariant import read_store
from tests.support.link_client import wall_us

LIST, GROUPS = ROOT + wire.PATH, ROOT + wire.GROUPS_PATH
REPLAY, RESOLVE = ROOT + wire.REPLAY_PATH, ROOT + wire.RESOLVE_PATH

MODELS = {
    LIST: wire.DeadLetterPage, GROUPS: wire.DeadLetterGroups, REPLAY: wire.ReplayAnswer, RESOLVE: wire.ResolveAnswer,
}  # fmt: skip


def one(recipient, channel, sequence):
    return f"{LIST}/{recipient}/{quote(channel, safe='')}/{sequence}"


def item(sequence, recipient="qa", channel="@qa"):
    return {"recipient": recipient, "channel": channel, "channel_sequence_id": sequence}


async def kill(link, *payloads, to="@qa", agent="qa", reason="cannot read this"):
    """Messages from pm that their recipient refuses."""
    pm, receiver = await link.client("pm"), await link.client(agent)
    await pm.submit(*(pm.envelope(to, payload=payload) for payload in payloads))
    for message in await receiver.poll(count=100):
        assert (await receiver.nack(message["delivery_id"], "refuse", reason)).status == 200


async def ask(client, method, target, body=None):
    answer = await client.call(method, target, body)
    assert answer.status == 200, answer.document
    assert answer.sealed
    bare = target.partition("?")[0]
    check(MODELS.get(bare, wire.DeadLetterRecord), answer.document)
    return answer.document


async def test_a_dead_letter_is_listed_and_shown(near):
    """What, for whom, why, in whose words and since when; in full with its message as it was sent."""
    await kill(near, {"text": "x"})
    orchestrator = await near.client("orchestrator")
    page = await ask(orchestrator, "GET", LIST)
    (letter,) = page["dead_letters"]
    assert page["next"] is None
    shown = {name: letter[name] for name in ("recipient", "channel", "channel_sequence_id", "sender", "type", "reason")}
    assert shown == item(1) | {"sender": "pm", "type": "note/1", "reason": "refused"}
    assert (letter["detail"], letter["cycles"], letter["closure"]) == ("cannot read this", 1, None)
    full = await ask(orchestrator, "GET", one("qa", "@qa", 1))
    assert full["envelope"]["payload"] == {"text": "x"}
    assert [cycle["detail"] for cycle in full["history"]] == ["cannot read this"]
    assert full["history"][0]["handovers"] == 1
    groups = (await ask(orchestrator, "GET", GROUPS))["groups"]
    died = letter["died_at"]
    assert groups == [{"recipient": "qa", "reason": "refused", "count": 1, "oldest": died, "newest": died}]


async def test_a_replayed_letter_is_handed_over_again(near):
    """Same id, place, sender, body and time; the list is empty then, and the record tells of the replay."""
    await kill(near, {"n": 1})
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    before = (await ask(orchestrator, "GET", one("qa", "@qa", 1)))["envelope"]
    answer = await ask(orchestrator, "POST", REPLAY, {"items": [item(1)]})
    assert (answer["matched"], answer["replayed"], answer["refused"]) == (1, 1, 0)
    assert answer["outcomes"] == [item(1) | {"status": "queued"}]
    (message,) = await qa.poll()
    assert (message["envelope"], message["attempt"], message["redelivered"]) == (before, 2, True)
    assert (await ask(orchestrator, "GET", LIST))["dead_letters"] == []
    assert (await ask(orchestrator, "GET", one("qa", "@qa", 1)))["closure"] == "replayed"
    await qa.nack(message["delivery_id"], "refuse", "again")
    (letter,) = (await ask(orchestrator, "GET", LIST))["dead_letters"]
    assert (letter["cycles"], letter["detail"]) == (2, "again")


async def test_replays_at_once_give_one_delivery(near):
    """Ten requests for one letter: one is answered with queued, the rest with 409 (mafintosh/sqs#41)."""
    await kill(near, {"n": 1})
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    answers = await asyncio.gather(*(ask(orchestrator, "POST", REPLAY, {"items": [item(1)]}) for _ in range(10)))
    assert sum(answer["replayed"] for answer in answers) == 1
    problems = [answer["outcomes"][0]["problem"] for answer in answers if answer["refused"]]
    assert {(problem["type"], problem["status"]) for problem in problems} == {("not-dead", 409)}
    assert len(await qa.poll()) == 1
    assert await qa.poll() == []


async def test_a_bulk_replay_takes_what_was_shown(near):
    """Filters, a limit with a cursor, a cut-off that spares what died later, and a dry run that changes nothing."""
    await kill(near, *({"n": n} for n in range(5)))
    await kill(near, {"n": 0}, to="@growth", agent="growth")
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    seen_at = iso(wall_us())
    await kill(near, {"n": 5})
    asked = {"recipient": "qa", "reason": "refused", "cut_off": seen_at, "limit": 3}
    dry = await ask(orchestrator, "POST", REPLAY, asked | {"dry_run": True})
    assert (dry["matched"], dry["replayed"], dry["cut_off"]) == (3, 0, seen_at)
    assert [outcome["status"] for outcome in dry["outcomes"]] == ["dead"] * 3
    assert await qa.poll() == []
    first = await ask(orchestrator, "POST", REPLAY, asked)
    second = await ask(orchestrator, "POST", REPLAY, asked | {"after": first["next"]})
    assert [first["replayed"], second["replayed"], second["next"]] == [3, 2, None]
    assert [message["envelope"]["payload"]["n"] for message in await qa.poll()] == [0, 1, 2, 3, 4]
    left = (await ask(orchestrator, "GET", LIST))["dead_letters"]
    assert {(letter["recipient"], letter["channel_sequence_id"]) for letter in left} == {("growth", 1), ("qa", 6)}


async def test_items_are_replayed_in_the_order_of_their_messages(near):
    """Whatever order they are named in: "cancel X" does not overtake "start X"; what never died has its own answer."""
    await kill(near, *({"n": n} for n in range(3)))
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    answer = await ask(orchestrator, "POST", REPLAY, {"items": [item(3), item(9), item(1), item(2)]})
    assert (answer["replayed"], answer["refused"]) == (3, 1)
    (problem,) = (outcome["problem"] for outcome in answer["outcomes"] if "problem" in outcome)
    assert problem["type"] == "not-found"
    assert [message["envelope"]["payload"]["n"] for message in await qa.poll()] == [0, 1, 2]


async def test_a_resolved_letter_is_closed(near):
    """With its note; it is listed and replayed no more, and can still be read."""
    await kill(near, {"n": 1}, {"n": 2})
    orchestrator = await near.client("orchestrator")
    answer = await ask(orchestrator, "POST", RESOLVE, {"items": [item(1), item(7)], "note": "sent anew"})
    assert (answer["resolved"], answer["refused"]) == (1, 1)
    full = await ask(orchestrator, "GET", one("qa", "@qa", 1))
    assert (full["closure"], full["note"], full["reason"]) == ("resolved", "sent anew", "refused")
    listed = (await ask(orchestrator, "GET", LIST))["dead_letters"]
    assert [letter["channel_sequence_id"] for letter in listed] == [2]
    assert (await ask(orchestrator, "POST", REPLAY, {"items": [item(1)]}))["refused"] == 1


@pytest.mark.parametrize("agent", ["pm", "qa"])
async def test_dead_letters_are_the_orchestrators(near, agent):
    """Of every call, and of one's own letters too."""
    await kill(near, {"n": 1})
    client = await near.client(agent)
    for method, target, body in (
        ("GET", LIST, None), ("GET", GROUPS, None), ("GET", one("qa", "@qa", 1), None),
        ("POST", REPLAY, {"items": [item(1)]}), ("POST", RESOLVE, {"items": [item(1)]}),
    ):  # fmt: skip
        answer = await client.call(method, target, body)
        assert (answer.status, answer.document["type"]) == (403, "not-permitted"), target
    assert read_store(near.config.adapter_store).census()["dead"] == 1


@pytest.mark.parametrize(
    ("method", "target", "body", "field"),
    [
        ("GET", LIST + "?limit=0", None, "query limit"), ("GET", LIST + "?limit=501", None, "query limit"),
        ("GET", LIST + "?before=yesterday", None, "query before"), ("GET", LIST + "?after=1", None, "query after"),
        ("GET", LIST + "?after=-1.qa", None, "query after"), ("GET", LIST + "?reason=bad", None, "query reason"),
        ("GET", f"{LIST}/qa/%40qa/0", None, "path sequence"), ("GET", f"{LIST}/qa/%40qa/x", None, "path sequence"),
        ("GET", f"{LIST}/qa/%40qa/9999999999999999", None, "path sequence"),
        ("POST", REPLAY, {"limit": 0}, "/limit"), ("POST", REPLAY, {"reason": "bad"}, "/reason"),
        ("POST", REPLAY, {"cut_off": "now"}, "/cut_off"), ("POST", REPLAY, {"after": "zz"}, "/after"),
        ("POST", REPLAY, {"items": []}, "/items"),
        ("POST", REPLAY, {"items": [item(0)]}, "/items/0/channel_sequence_id"),
        ("POST", REPLAY, {"items": [item(1)], "recipient": "qa"}, "/items"),
        ("POST", RESOLVE, {}, "/items"), ("POST", RESOLVE, {"items": [item(1)], "note": "n" * 1001}, "/note"),
    ],
)  # fmt: skip
async def test_what_is_no_question_is_refused(near, method, target, body, field):
    """With the place of the fault."""
    orchestrator = await near.client("orchestrator")
    answer = await orchestrator.call(method, target, body)
    assert (answer.status, answer.document["field"]) == (422, field), answer.document


async def test_what_is_not_there_is_not_found(near):
    """Whatever names are asked for, and lists of unknown agents are empty."""
    orchestrator = await near.client("orchestrator")
    for names in (("qa", "@qa", 1), ("nobody", "@qa", 1), ("qa", "nowhere", 1), ("%00", "\0", 1)):
        assert (await orchestrator.call("GET", one(*names))).status == 404, names
    assert (await ask(orchestrator, "GET", LIST + "?recipient=nobody"))["dead_letters"] == []


async def test_a_dead_letter_outlives_a_kill(start):
    """As does a replay: after each, exactly one of live and dead, and the record agrees (wolverine#4488)."""
    link = await start()
    await kill(link, {"n": 1})
    link.adapter.kill9()
    await link.start_adapter()
    orchestrator = await link.client("orchestrator")
    assert len((await ask(orchestrator, "GET", LIST))["dead_letters"]) == 1
    assert (await ask(orchestrator, "POST", REPLAY, {"items": [item(1)]}))["replayed"] == 1
    link.adapter.kill9()
    await link.start_adapter()
    orchestrator, qa = await link.client("orchestrator"), await link.client("qa")
    assert (await ask(orchestrator, "GET", LIST))["dead_letters"] == []
    assert len(await qa.poll()) == 1
    assert link.violations() == []


async def test_deaths_are_alerted_once_in_a_window(start):
    """To the members of `platform`, with the count; an alert that dies itself raises no further one."""
    link = await start(alert_window_seconds=0.5)
    await kill(link, *({"n": n} for n in range(7)))
    orchestrator = await link.client("orchestrator")
    (message,) = await orchestrator.poll(wait=20)
    envelope = message["envelope"]
    assert (envelope["sender"], envelope["type"], envelope["priority"]) == (
        "adapter",
        "alert.dead-letter/1",
        "critical",
    )
    assert envelope["payload"].items() >= {"agent": "qa", "reason": "refused", "count": 7}.items()
    assert "signature" not in envelope
    await orchestrator.nack(message["delivery_id"], "refuse")
    assert (await ask(orchestrator, "GET", LIST + "?recipient=orchestrator"))["dead_letters"] != []
    await kill(link, {"n": 8})
    (second,) = await orchestrator.poll(wait=20)
    assert second["envelope"]["payload"]["count"] == 1
    assert link.violations() == []


@pytest.mark.parametrize(("earlier", "later"), [("expires_at", "deadline"), ("deadline", "expires_at")])
async def test_what_expires_dies_without_a_poll(start, earlier, later):
    """At its time, which is the earlier of the two, for each recipient (promise 6)."""
    link = await start(alert_window_seconds=60)
    pm = await link.client("pm")
    await pm.send("product", **{earlier: iso(wall_us() + 300_000), later: iso(wall_us() + 60_000_000)})
    await until(lambda: read_store(link.config.adapter_store).census()["dead"] == 6, "all six are dead")
    orchestrator = await link.client("orchestrator")
    groups = (await ask(orchestrator, "GET", GROUPS))["groups"]
    assert {(group["reason"], group["count"]) for group in groups} == {("expired", 1)}


async def test_a_dead_letter_is_edited_and_sent_anew(near):
    """The new message names the old and the letter names the new; asked again it is a duplicate; a second is 409."""
    await kill(near, {"text": "x"})
    orchestrator, qa = await near.client("orchestrator"), await near.client("qa")
    envelope = orchestrator.envelope("@qa", payload={"text": "mended"}, replaces=item(1))
    (sent,) = await orchestrator.submit(envelope)
    assert (sent["code"], sent["answer"]["channel_sequence_id"]) == (201, 2)
    letter = await ask(orchestrator, "GET", one("qa", "@qa", 1))
    assert (letter["closure"], letter["replaced_by"]) == ("resent", {"channel": "@qa", "channel_sequence_id": 2})
    (message,) = await qa.poll()
    assert (message["envelope"]["replaces"], message["envelope"]["payload"]) == (item(1), {"text": "mended"})
    (again,) = await orchestrator.submit(envelope)
    assert (again["code"], again["answer"]["status"]) == (200, "duplicate")
    (second,) = await orchestrator.submit(orchestrator.envelope("@qa", replaces=item(1)))
    assert (second["code"], second["problem"]["type"], second["problem"]["retryable"]) == (409, "not-dead", False)
    assert near.violations() == []


async def test_a_letter_that_was_replaced_outlives_a_kill(start):
    """Both are there or neither is: here the answer came, so both are."""
    link = await start()
    await kill(link, {"n": 1})
    orchestrator = await link.client("orchestrator")
    await orchestrator.submit(orchestrator.envelope("@qa", replaces=item(1)))
    link.adapter.kill9()
    await link.start_adapter()
    orchestrator, qa = await link.client("orchestrator"), await link.client("qa")
    assert (await ask(orchestrator, "GET", one("qa", "@qa", 1)))["replaced_by"]["channel_sequence_id"] == 2
    assert len(await qa.poll()) == 1
    assert link.violations() == []


@pytest.mark.parametrize(
    ("agent", "to", "type_", "replaces", "kind"),
    [
        ("pm", "@qa", "note/1", item(1), "not-permitted"), ("orchestrator", "@pm", "note/1", item(1), "invalid-field"),
        ("orchestrator", "@qa", "alert.dead-letter/1", item(1), "sender-not-allowed"),
        ("orchestrator", "@qa", "note/1", item(9), "not-found"), ("orchestrator", "@qa", "note/1", {}, "invalid-field"),
        ("orchestrator", "@qa", "note/1", item(1) | {"x": 1}, "unknown-field"),
    ],
)  # fmt: skip
async def test_what_cannot_replace_a_dead_letter_is_refused(near, agent, to, type_, replaces, kind):
    """And the letter stays open."""
    await kill(near, {"n": 1})
    client = await near.client(agent)
    (outcome,) = await client.submit(client.envelope(to, type=type_, replaces=replaces))
    assert outcome["problem"]["type"] == kind
    orchestrator = await near.client("orchestrator")
    assert (await ask(orchestrator, "GET", one("qa", "@qa", 1)))["closure"] is None
