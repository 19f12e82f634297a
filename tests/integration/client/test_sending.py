"""Sends: one message, however often it takes."""

import asyncio

import pytest

from multiclaw import (
    Agent,
    BatchFailed,
    ConfigurationError,
    InvalidMessage,
    Receipt,
    Refused,
    Unavailable,
)
from tests.support.fake_sidecar import Answers, Fails, FakeSidecar, Hangs, LosesAnswer, LosesRequest


def keys(sidecar):
    return [body["idempotency_key"] for body in sidecar.bodies("/v1/messages")]


async def test_a_receipt_tells_how_far_it_got(agent):
    """An accepted send names its place and the rung that each recipient is on."""
    receipt = await agent.send("product", "note/1", {"text": "é\U0001f600"})
    assert (receipt.status, receipt.channel, receipt.sequence) == ("accepted", "product", 1)
    assert [(r.agent, r.status, r.unread) for r in receipt.recipients] == [("pm", "queued", 3)]


async def test_all_fields_travel(agent, sidecar):
    """Every keyword of a send arrives under its own name, and the payload unchanged."""
    fields = {"task_id": "t", "thread_id": "th", "reply_to_sequence_id": 3, "context": {"a": [1]}}
    await agent.send("product", "note/1", {"text": "é\u2028"}, **fields)
    body = sidecar.bodies("/v1/messages")[0]
    key = body.pop("idempotency_key")
    assert body == {"to": "product", "type": "note/1", "payload": {"text": "é\u2028"}, **fields}
    assert list(sidecar.sent) == [key]


@pytest.mark.parametrize("fault", [LosesAnswer(), LosesRequest(), Fails(), Fails(429, "queue-full")])
async def test_retries_keep_the_key(agent, sidecar, fault):
    """A lost answer, a lost request and a passing refusal are tried again under one key: never two messages."""
    sidecar.fail("/v1/messages", fault, fault)
    receipt = await agent.send("product", "note/1", 1)
    assert receipt.status == ("duplicate" if isinstance(fault, LosesAnswer) else "accepted")
    assert len(keys(sidecar)) == 3
    assert set(keys(sidecar)) == set(sidecar.sent) == {receipt.key}


async def test_a_restart_of_the_sidecar_is_ridden_out(agent, sidecar):
    """A send made while the sidecar is down arrives once it is up, also over a connection that had been kept."""
    await agent.send("product", "note/1", 1)
    await sidecar.stop()
    sending = asyncio.create_task(agent.send("product", "note/1", 2))
    done, _ = await asyncio.wait({sending}, timeout=0.2)
    assert not done
    await sidecar.start()
    assert (await sending).sequence == 2
    assert len(sidecar.sent) == 2


async def test_a_sidecar_that_hangs_is_asked_again(sidecar):
    """No answer in time leaves the outcome unknown: the same key finds out."""
    sidecar.fail("/v1/messages", Hangs())
    async with Agent("qa", socket=sidecar.path, request_seconds=0.2) as agent:
        assert (await agent.send("product", "note/1", 1)).status == "duplicate"
    assert len(sidecar.sent) == 1
    sidecar.fail("/v1/messages", Hangs())
    async with Agent("qa", socket=sidecar.path, request_seconds=0.2, retry_seconds=0.0) as agent:
        with pytest.raises(Unavailable, match=r"gave no answer within 0\.2 s"):
            await agent.send("product", "note/1", 1)


async def test_retry_after_is_honoured(agent, sidecar):
    """No attempt is made before the server's word allows it."""
    sidecar.fail("/v1/messages", Fails(503, "outbox-full", retry_after=0.4))
    begun = asyncio.get_running_loop().time()
    await agent.send("product", "note/1", 1)
    assert asyncio.get_running_loop().time() - begun >= 0.4


async def test_refusals_are_not_retried(agent, sidecar):
    """A 4xx is raised at once, with all that the problem says, and with the key."""
    with pytest.raises(Refused) as caught:
        await agent.send("nowhere", "note/1", 1)
    error = caught.value
    assert (error.type, error.field, error.status, error.retryable) == ("unknown-recipient", "/to", 422, False)
    assert keys(sidecar) == [error.key]


async def test_retries_are_bounded(sidecar):
    """A sidecar that stays away makes the send fail within its budget, with the key to send again."""
    await sidecar.stop()
    begun = asyncio.get_running_loop().time()
    async with Agent("qa", socket=sidecar.path, retry_seconds=0.3) as agent:
        with pytest.raises(Unavailable, match="multiclaw sidecar --agent qa") as caught:
            await agent.send("product", "note/1", 1)
    assert 0.3 <= asyncio.get_running_loop().time() - begun < 2.0
    assert caught.value.attempts > 1
    assert caught.value.key


async def test_a_wait_that_does_not_fit_gives_up_at_once(agent, sidecar):
    """When the server asks for more time than there is, the caller learns it now."""
    sidecar.fail("/v1/messages", Fails(503, "outbox-full", retry_after=60.0))
    with pytest.raises(Unavailable) as caught:
        await agent.send("product", "note/1", 1)
    assert (caught.value.type, caught.value.retry_after, caught.value.attempts) == ("outbox-full", 60.0, 1)


@pytest.mark.parametrize("payload", [float("nan"), {"a": ["\ud800"]}, object()])
async def test_what_is_not_json_never_leaves(agent, sidecar, payload):
    """NaN, a lone surrogate and objects are refused before anything is sent."""
    with pytest.raises(InvalidMessage, match="/payload"):
        await agent.send("product", "note/1", payload)
    with pytest.raises(InvalidMessage, match="/1/payload"):
        await agent.send_many([{"to": "a", "type": "b/1", "payload": p} for p in (1, payload)])
    assert sidecar.calls == []


async def test_something_else_on_the_socket_is_told_apart(agent, sidecar):
    """An answer that is no sidecar's is not tried again."""
    sidecar.fail("/v1/messages", Answers(200, b"<html>"))
    with pytest.raises(Unavailable, match="is not a sidecar"):
        await agent.send("product", "note/1", 1)
    assert len(sidecar.calls) == 1


async def test_a_closed_agent_says_so(sidecar):
    """Calls outside the block are a clear error."""
    agent = Agent("qa", socket=sidecar.path)
    with pytest.raises(RuntimeError, match="async with"):
        await agent.send("product", "note/1", 1)


def draft(n, **fields):
    return {"to": "product", "type": "note/1", "payload": n, **fields}


async def test_a_batch_goes_in_few_requests(agent, sidecar):
    """250 sends make three requests, in order, with a receipt each."""
    receipts = await agent.send_many(draft(n) for n in range(250))
    batches = [body["messages"] for body in sidecar.bodies("/v1/messages/batch")]
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert [message["payload"] for batch in batches for message in batch] == list(range(250))
    assert [receipt.sequence for receipt in receipts] == list(range(1, 251))


async def test_big_batches_are_split_by_size(agent, sidecar):
    """Requests stay within what a sidecar takes, however large the messages are."""
    await agent.send_many(draft("x" * 200_000) for _ in range(9))
    sizes = [len(call.text) for call in sidecar.calls]
    assert len(sizes) > 2
    assert max(sizes) <= 1024 * 1024


async def test_each_send_of_a_batch_has_its_own_fate(agent, sidecar):
    """A refused one is told apart; a passing refusal is tried again alone, under its key; the rest went through."""
    sidecar.fail("slow", Fails())
    with pytest.raises(BatchFailed, match="1 of 3 sends failed") as caught:
        await agent.send_many([draft(0), draft(1, to="nowhere"), draft(2, to="slow")])
    first, second, third = caught.value.outcomes
    assert isinstance(first, Receipt)
    assert isinstance(third, Receipt)
    assert isinstance(second, Refused)
    assert (second.type, second.attempts) == ("unknown-recipient", 1)
    assert second.key == sidecar.bodies("/v1/messages/batch")[0]["messages"][1]["idempotency_key"]
    again = sidecar.bodies("/v1/messages/batch")[1]["messages"]
    assert [message["idempotency_key"] for message in again] == [third.key]


@pytest.mark.parametrize("fault", [LosesAnswer(), LosesRequest(), Fails()])
async def test_a_batch_is_retried_under_its_keys(agent, sidecar, fault):
    """A batch whose answer is lost makes no message twice."""
    sidecar.fail("/v1/messages/batch", fault)
    receipts = await agent.send_many(draft(n) for n in range(3))
    assert [receipt.key for receipt in receipts] == list(sidecar.sent)


async def test_one_bad_message_does_not_spoil_a_batch(agent, sidecar):
    """When a whole body is refused for what one holds, each is sent on its own, and the good ones arrive."""
    sidecar.fail("/v1/messages/batch", Fails(422, "invalid-text", retryable=False))
    receipts = await agent.send_many(draft(n) for n in range(3))
    assert len(receipts) == 3
    assert [len(body["messages"]) for body in sidecar.bodies("/v1/messages/batch")] == [3, 1, 1, 1]


async def test_tcp_with_a_token(short_folder):
    """Loopback TCP works with a bearer token from a file, and a wrong one is a refusal."""
    (short_folder / "token").write_text("secret\n")
    async with FakeSidecar(None, token="secret") as sidecar:  # noqa: S106 - a made-up token
        url = f"http://127.0.0.1:{sidecar.port}"
        async with Agent("qa", url=url, token_file=short_folder / "token") as agent:
            assert (await agent.send("product", "note/1", 1)).status == "accepted"
        async with Agent("qa", url=url, token="wrong") as agent:  # noqa: S106 - a made-up token
            with pytest.raises(Refused, match="unauthenticated"):
                await agent.send("product", "note/1", 1)


async def test_the_configuration_leads_to_the_socket(short_folder, monkeypatch):
    """An agent that is only told its configuration, by argument or environment, reaches its sidecar."""
    (short_folder / "run").mkdir()
    (short_folder / "multiclaw.toml").write_text("[agents.qa]\n")
    async with FakeSidecar(short_folder / "run" / "sidecar-qa.sock"):
        async with Agent("qa", config=short_folder / "multiclaw.toml") as agent:
            assert (await agent.health())["agent"] == "qa"
        monkeypatch.setenv("MULTICLAW_CONFIG", str(short_folder / "multiclaw.toml"))
        async with Agent("qa") as agent:
            assert (await agent.health())["agent"] == "qa"


async def test_nowhere_to_go_is_said_on_opening(monkeypatch):
    """Without any hint where the sidecar is, opening fails and names the ways to tell."""
    for name in ("CONFIG", "SOCKET", "URL"):
        monkeypatch.delenv(f"MULTICLAW_{name}", raising=False)
    with pytest.raises(ConfigurationError, match="MULTICLAW_SOCKET"):
        async with Agent("qa"):
            pass


async def test_ids_with_any_characters_reach_their_task(agent, sidecar):
    """A task id is one path segment, whatever it holds."""
    assert (await agent.task("a/b?c%d é"))["asked"] == "/v1/tasks/a%2Fb%3Fc%25d%20%C3%A9"
    assert (await agent.lineage("x"))["asked"] == "/v1/tasks/x/lineage"
    assert await agent.emergency("stuck", "help", {"n": 1}) == {"recorded": "journald"}
    assert sidecar.calls[-1].json == {"kind": "stuck", "summary": "help", "details": {"n": 1}}


async def test_degraded_health_is_an_answer(agent, sidecar):
    """A 503 that describes the sidecar's state is returned, any other is raised."""
    sidecar.fail("/health", Answers(503, b'{"status":"degraded","agent":"qa","breaker":"open"}'), Fails())
    assert (await agent.health())["status"] == "degraded"
    with pytest.raises(Unavailable):
        await agent.health()
