"""Sends: the direct path, and its turn to the outbox."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.database import open_database
from shared.problems import Problem
from tests.integration.sidecar.harness import Deployment, fresh_key, key, message, until, until_health
from tests.support.store_hand import reading


async def test_a_send_is_accepted_and_stamped(deployment: Deployment) -> None:
    """The adapter gets the agent's content, unchanged, with the sidecar's own name and a key."""
    async with deployment.adapter(), deployment.sidecar() as client:
        status, answer = await client.send(payload={"text": "ü 𝄞", "n": 1.5, "none": None}, context=None)
        assert (status, answer["status"], answer["channel_sequence_id"]) == (201, "accepted", 1)
        stored = deployment.fake.messages[0].envelope
        assert stored["sender"] == "pm"
        assert stored["idempotency_key"] == answer["idempotency_key"]
        assert stored["payload"] == {"text": "ü 𝄞", "n": 1.5, "none": None}
        assert "context" not in stored


async def test_a_null_payload_arrives(deployment: Deployment) -> None:
    """Null says nothing anywhere but as the payload, where it is the content."""
    async with deployment.adapter(), deployment.sidecar() as client:
        assert (await client.send(payload=None))[0] == 201
        assert deployment.fake.messages[0].envelope["payload"] is None


async def test_a_repeat_is_a_duplicate_and_a_reuse_a_conflict(deployment: Deployment) -> None:
    """Same key and content: 200 with the first answer. Same key, other content: 422."""
    async with deployment.adapter(), deployment.sidecar() as client:
        first = await client.send(idempotency_key=key(1))
        again = await client.send(idempotency_key=key(1))
        other = await client.send(idempotency_key=key(1), payload="other")
        assert (first[0], again[0], other[0]) == (201, 200, 422)
        assert again[1]["status"] == "duplicate"
        assert other[1]["type"] == "idempotency-conflict"


async def test_the_key_may_come_in_the_header(deployment: Deployment) -> None:
    """The header stands in for the field; two different keys are refused, and so is what is no UUID."""
    async with deployment.adapter(), deployment.sidecar() as client:

        async def send(header: str, **fields: str) -> tuple[int, dict]:
            return await client.call("POST", "/v1/messages", message(**fields), headers={"Idempotency-Key": header})

        assert (await send(key(7)))[1]["idempotency_key"] == key(7)
        assert (await send(key(7), idempotency_key=key(7)))[0] == 200
        for status, problem in (await send(key(8), idempotency_key=key(7)), await send("seven")):
            assert (status, problem["type"], problem["field"]) == (422, "invalid-field", "header Idempotency-Key")


async def test_sends_that_wait_leave_together_in_order(deployment: Deployment) -> None:
    """While one request is in flight the others gather, and all of them leave with the next, in order of arrival."""
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.gate.clear()
        first = asyncio.ensure_future(client.send(payload=0))
        await until(lambda: deployment.fake.batches)
        rest = []
        for number in range(1, 30):
            rest.append(asyncio.ensure_future(client.send(payload=number)))
            await asyncio.sleep(0)
        # A guarded call that follows them shows that the sidecar has read them all.
        await client.call("POST", "/v1/messages/batch", {"messages": [{}]})
        deployment.fake.gate.set()
        answers = await asyncio.gather(first, *rest)
        assert [status for status, _ in answers] == [201] * 30
        assert len(deployment.fake.batches) <= 3
        assert sorted(deployment.fake.order("product")) == list(range(30))
        assert [answer["channel_sequence_id"] for _, answer in answers] == [
            deployment.fake.order("product").index(number) + 1 for number in range(30)
        ]


async def test_a_batch_keeps_order_and_answers_each(deployment: Deployment) -> None:
    """One bad message of a batch is refused alone; the rest are accepted in order."""
    messages = [message(payload=n) for n in range(100)]
    messages[10]["surprise"] = 1
    messages[20]["sender"] = "qa"
    async with deployment.adapter(), deployment.sidecar() as client:
        status, answer = await client.call("POST", "/v1/messages/batch", {"messages": messages})
        codes = [outcome["code"] for outcome in answer["outcomes"]]
        assert status == 200
        assert (codes[10], codes[20]) == (422, 403)
        assert answer["outcomes"][10]["problem"]["field"] == "/surprise"
        assert codes.count(201) == 98
        assert deployment.fake.order("product") == [n for n in range(100) if n not in (10, 20)]


async def test_large_messages_leave_in_requests_of_bounded_size(deploy: Callable[..., Deployment]) -> None:
    """A batch over what one request of the link may hold leaves in several, in order, unchanged."""
    deployment = deploy(link_timeout_seconds=30.0)  # megabytes are signed and held back: no request is too late
    texts = [f"{number}" * 120_000 for number in range(10)] * 7
    async with deployment.adapter(), deployment.sidecar() as client:
        for part in (texts[:35], texts[35:]):
            await client.call("POST", "/v1/messages/batch", {"messages": [message(payload=text) for text in part]})
        assert deployment.fake.order("product") == texts
        deployment.fake.gate.clear()
        sends = [asyncio.ensure_future(client.send(payload=text)) for text in texts]
        await until(lambda: len(deployment.fake.batches) > 2)
        await client.call("POST", "/v1/messages/batch", {"messages": [{}]})
        deployment.fake.gate.set()
        assert {status for status, _ in await asyncio.gather(*sends)} == {201}
        assert max(map(len, deployment.fake.batches)) < 70
        assert sorted(deployment.fake.order("product")[70:]) == sorted(texts)


async def test_without_an_adapter_sends_are_queued_and_drain_in_order(deployment: Deployment) -> None:
    """202 with growing positions while it is away; when it is back, order is as sent, later sends included."""
    async with deployment.sidecar() as client:
        for number in range(5):
            status, answer = await client.send(payload=number)
            assert (status, answer["status"], answer["outbox_position"]) == (202, "queued", number + 1)
        async with deployment.adapter():
            tail = [await client.send(payload=number) for number in range(5, 40)]
            await until_health(client, outbox_depth=0, breaker="closed", status="ok")
            assert (await client.send(payload=40))[0] == 201
            assert {status for status, _ in tail} <= {201, 202}
            assert deployment.fake.order("product") == list(range(41))


async def test_a_failing_direct_batch_stands_before_later_sends(deployment: Deployment) -> None:
    """A request whose outcome is unknown enters the outbox with the same key, before what was sent after it."""
    async with deployment.sidecar() as client:
        async with deployment.adapter():
            await until_health(client, adapter_reachable=True)
            deployment.fake.gate.clear()
            sends = [asyncio.ensure_future(client.send(payload=0))]
            await until(lambda: deployment.fake.batches)
            sends += [asyncio.ensure_future(client.send(payload=1))]
            await client.call("POST", "/v1/messages/batch", {"messages": [{}]})
            failures = [Problem("store-unavailable", "The disk is full.")]
            deployment.fake.before_submit = lambda: failures.pop() if failures else None
            deployment.fake.gate.set()
            assert [status for status, _ in await asyncio.gather(*sends)] == [202, 202]
            await client.send(payload=2)
            await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == [0, 1, 2]


async def test_a_timeout_is_unknown_and_repeated_with_the_same_key(deploy) -> None:
    """The adapter took the message and its answer was lost: the drain repeats it, and it is stored once."""
    deployment = deploy(link_timeout_seconds=0.2)
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.gate.clear()
        status, answer = await client.send(payload="once")
        assert (status, answer["outbox_position"]) == (202, 1)
        deployment.fake.gate.set()
        await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == ["once"]


async def test_a_key_in_the_outbox_is_recognised(deployment: Deployment) -> None:
    """Same content again: the same position. Other content: 422, and what waits is unchanged."""
    async with deployment.sidecar() as client:
        assert (await client.send(idempotency_key=key(1)))[0] == 202
        assert (await client.send(idempotency_key=key(2)))[1]["outbox_position"] == 2
        status, again = await client.send(idempotency_key=key(1))
        assert (status, again["outbox_position"]) == (202, 1)
        status, problem = await client.send(idempotency_key=key(1), payload="other")
        assert (status, problem["type"]) == (422, "idempotency-conflict")
        assert (await client.health())["outbox_depth"] == 2


async def test_a_full_outbox_refuses_and_drops_nothing(deploy) -> None:
    """503 with Retry-After at the bound; what was queued before all arrives."""
    deployment = deploy(outbox_max=3)
    async with deployment.sidecar() as client:
        assert [(await client.send(payload=n))[0] for n in range(3)] == [202] * 3
        status, problem = await client.send(payload=3)
        assert (status, problem["type"], problem["retryable"]) == (503, "outbox-full", True)
        assert int(client.headers["Retry-After"]) >= 1
        async with deployment.adapter():
            await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == [0, 1, 2]


async def test_poison_in_the_outbox_is_set_aside(deployment: Deployment) -> None:
    """What the adapter refuses for good leaves the outbox, visibly, and the rest follow in order."""
    async with deployment.sidecar() as client:
        for number in range(6):
            await client.send(payload=number)
        deployment.fake.judge = lambda e: (
            Problem("contract-violation", "No.", field="/payload") if e["payload"] == 0 else None
        )
        async with deployment.adapter():
            await until_health(client, outbox_depth=0, outbox_dead=1)
        assert deployment.fake.order("product") == [1, 2, 3, 4, 5]


async def make_older(path: Path, days: int, below: int) -> None:
    """Entries of an outbox that nobody has open, as if they had waited longer; written as a sidecar writes."""
    database = await open_database(path, "")
    aged = "UPDATE outbox SET queued_at_us = queued_at_us - ? * 86400000000 WHERE id < ?"
    await database.run(lambda connection: connection.execute(aged, (days, below)))
    await database.close()


async def test_what_waited_too_long_is_set_aside(short_folder: Path) -> None:
    """The adapter may have forgotten its key by then, and says so: it might arrive twice. The rest follows."""
    deployment = Deployment(short_folder, outbox_days_max=1)
    database = deployment.config.sidecar_state("pm") / "sidecar.db"
    async with deployment.sidecar() as client:
        for number in range(3):
            await client.send(payload=number)
    await make_older(database, days=1, below=3)
    deployment.fake.forgotten_us = time.time_ns() // 1_000 - 12 * 3_600_000_000
    async with deployment.sidecar() as client, deployment.adapter():
        await until_health(client, outbox_depth=0, outbox_dead=2)
        assert deployment.fake.order("product") == [2]
    with reading(database) as connection:
        problems = [json.loads(text) for (text,) in connection.execute("SELECT problem FROM outbox_dead")]
    assert [problem["type"] for problem in problems] == ["expired", "expired"]
    assert "Send it anew" in problems[0]["detail"]


async def test_what_only_seems_old_is_sent(short_folder: Path) -> None:
    """The wall clock has jumped; the adapter, which trusts none that does, remembers all since."""
    deployment = Deployment(short_folder, outbox_days_max=1)
    database = deployment.config.sidecar_state("pm") / "sidecar.db"
    async with deployment.sidecar() as client:
        await client.send(payload=0)
    await make_older(database, days=40, below=9)
    deployment.fake.forgotten_us = time.time_ns() // 1_000 - 70 * 86_400_000_000
    async with deployment.sidecar() as client, deployment.adapter():
        await until_health(client, outbox_depth=0, outbox_dead=0)
        assert deployment.fake.order("product") == [0]


async def test_what_is_refused_for_now_stays_and_blocks(deployment: Deployment) -> None:
    """A retryable refusal ends the drain: the message keeps its place until the adapter takes it."""
    later = Problem("held-back", "Not yet.")
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.judge = lambda e: later if e["payload"] == 0 else None
        assert (await client.send(payload=0))[0] == 202
        assert (await client.send(payload=1))[0] == 202
        batches = len(deployment.fake.batches)
        await until(lambda: len(deployment.fake.batches) > batches + 1)
        assert (await client.health())["outbox_depth"] >= 1
        deployment.fake.judge = lambda _: None
        await until_health(client, outbox_depth=0)
        assert sorted(deployment.fake.order("product")) == [0, 1]


async def test_a_full_queue_is_told_to_the_sender(deployment: Deployment) -> None:
    """429 with Retry-After goes to the agent at once: in the outbox it would hold up what is meant for others."""
    full = Problem("queue-full", "A queue is full.", retry_after=7)
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        deployment.fake.judge = lambda e: full if e["payload"] == 0 else None
        status, problem = await client.send(payload=0)
        assert (status, problem["type"], client.headers["Retry-After"]) == (429, "queue-full", "7")
        assert (await client.send(payload=1))[0] == 201
        assert (await client.health())["outbox_depth"] == 0


async def test_a_message_that_always_faults_does_not_block_for_ever(deployment: Deployment) -> None:
    """The adapter's own fault at one message is retried some times, then the message is set aside."""
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.judge = lambda e: Problem("internal", "Bug.") if e["payload"] == 0 else None
        assert (await client.send(payload=0))[0] == 202
        await client.send(payload=1)
        await until_health(client, outbox_depth=0, outbox_dead=1)
        assert deployment.fake.order("product") == [1]


async def test_one_refused_request_does_not_taint_its_neighbours(deployment: Deployment) -> None:
    """A whole request refused for one message is taken apart: only that message is refused."""
    async with deployment.adapter(), deployment.sidecar() as client:
        poison = fresh_key()

        def before() -> Problem | None:
            return Problem("malformed-json", "No.", field="") if poison in deployment.fake.batches[-1] else None

        deployment.fake.before_submit = before
        messages = [message(payload=1), message(payload=2, idempotency_key=poison), message(payload=3)]
        _, answer = await client.call("POST", "/v1/messages/batch", {"messages": messages})
        assert [outcome["code"] for outcome in answer["outcomes"]] == [201, 400, 201]


async def test_nothing_overtakes_while_a_refused_request_is_taken_apart(deployment: Deployment) -> None:
    """The first message alone meets trouble that passes: those behind it wait for it, the poison is set aside."""
    first, poison, last = (fresh_key() for _ in range(3))
    trouble = [Problem("internal", "Once.")]

    def before() -> Problem | None:
        batch = deployment.fake.batches[-1]
        if poison in batch:
            return Problem("malformed-json", "No.", field="")
        return trouble.pop() if batch == [first] and trouble else None

    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        deployment.fake.before_submit = before
        messages = [message(payload=n, idempotency_key=k) for n, k in enumerate((first, poison, last))]
        _, answer = await client.call("POST", "/v1/messages/batch", {"messages": messages})
        assert [outcome["code"] for outcome in answer["outcomes"]] == [202, 202, 202]
        await until_health(client, outbox_depth=0, outbox_dead=1)
        assert deployment.fake.order("product") == [0, 2]


async def test_a_stale_signature_is_renewed(deployment: Deployment) -> None:
    """`signature-stale` is answered by signing again, at once and once."""
    stale = [Problem("signature-stale", "Old.")]
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.judge = lambda _: stale.pop() if stale else None
        assert (await client.send())[0] == 201
        assert len(deployment.fake.batches) == 2


@pytest.mark.parametrize("sender", ["orchestrator", "human-governor", "pm ", "PM", "", "\N{CYRILLIC SMALL LETTER ER}m"])
async def test_a_forged_sender_is_refused(deployment: Deployment, sender: str) -> None:
    """Any sender but one's own is 403, whatever it resembles; nothing is sent."""
    async with deployment.adapter(), deployment.sidecar() as client:
        status, problem = await client.send(sender=sender)
        assert (status, problem["type"], problem["field"]) == (403, "sender-forged", "/sender")
        assert (await client.send(sender="pm"))[0] == 201
        assert len(deployment.fake.messages) == 1


async def test_an_unknown_recipient_never_enters_the_outbox(deployment: Deployment) -> None:
    """With the adapter away, a name the configuration does not know is refused at once, with a hint."""
    async with deployment.sidecar() as client:
        await client.send()
        status, problem = await client.send(to="produkt")
        assert (status, problem["type"], problem["field"]) == (422, "unknown-recipient", "/to")
        assert "product" in problem["detail"]
        assert (await client.send(to="@human-governor"))[0] == 202


async def test_a_4xx_never_opens_the_breaker(deployment: Deployment) -> None:
    """Fifty refusals in a row leave the link closed."""
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.judge = lambda _: Problem("contract-violation", "No.")
        for _ in range(50):
            assert (await client.send())[0] == 422
        health = await client.health()
        assert (health["breaker"], health["outbox_depth"]) == ("closed", 0)


async def test_while_the_breaker_is_open_only_the_probe_touches_the_adapter(deployment: Deployment) -> None:
    """An adapter that is up and not ready hears health probes and nothing else."""
    deployment.fake.ready = False
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, breaker="open")
        deployment.fake.heard.clear()
        assert (await client.send())[0] == 202
        assert (await client.poll())[0] == 503
        assert (await client.ack("d0"))[0] == 503
        await until(lambda: deployment.fake.heard.count("/health") > 2)
        assert set(deployment.fake.heard) == {"/health"}


async def test_a_wrong_answer_signature_is_not_believed(deployment: Deployment) -> None:
    """An answer signed with another key counts as none: the send is queued, and repeated when answers are true."""
    async with deployment.adapter(), deployment.sidecar() as client:
        deployment.fake.forging = True
        assert (await client.send(payload="x"))[0] == 202
        status, problem = await client.poll()
        assert (status, problem["type"]) == (503, "adapter-unreachable")
        deployment.fake.forging = False
        await until_health(client, outbox_depth=0)
        assert deployment.fake.order("product") == ["x"]


async def test_a_name_that_joined_since_is_known(deployment: Deployment) -> None:
    """The file is read again when a name is not in it and it has changed; one that cannot be read changes nothing."""
    before = deployment.path.read_text()
    async with deployment.sidecar() as client:
        assert (await client.send(to="@ops"))[0] == 422
        deployment.path.write_text(before + "[agents.ops\n")
        assert (await client.send(to="@ops"))[0] == 422
        assert (await client.send(to="@qa"))[0] == 202
        deployment.path.write_text(before.replace("[agents.qa]", "[agents.qa]\n[agents.ops]"))
        assert (await client.send(to="@ops"))[0] == 202


async def test_a_removed_agent_is_told_so_and_loses_nothing(deployment: Deployment) -> None:
    """Its health names the reason, its outbox waits, and all of it leaves in order once it is an agent again."""
    async with deployment.sidecar() as client:
        assert [(await client.send(payload=number))[0] for number in (1, 2)] == [202, 202]
        deployment.fake.removed.add("pm")
        async with deployment.adapter():
            await until_health(client, shut_out="pm is no agent any more.", status="degraded")
            status, problem = await client.poll()
            assert (status, problem["type"]) == (401, "unauthenticated")
            assert (await client.send(payload=3))[0] == 202
            assert (await client.health())["outbox_depth"] == 3
            deployment.fake.removed.clear()
            await until_health(client, outbox_depth=0, shut_out=None, status="ok")
    assert deployment.fake.order("product") == [1, 2, 3]
