"""What is asked of the sidecar about dead letters, and what a message that is sent anew takes over."""

import json
from dataclasses import dataclass, field

import pytest

from multiclaw.client.dead_letters import DeadLetters
from multiclaw.client.sync_dead_letters import SyncDeadLetters

OLD = {
    "sender": "pm", "to": "product", "type": "task.assign/1", "payload": {"title": "x"}, "task_id": "t",
    "thread_id": "th", "correlation_id": "co", "parent_task_id": "pt", "context": {"a": None},
    "receipts": [{"file_id": "f"}],
    "deadline": "2020-01-01T00:00:00Z", "expires_at": "2020-01-01T00:00:00Z", "reply_to_sequence_id": 3,
    "channel_sequence_id": 7, "signature": {}, "idempotency_key": "k",
}  # fmt: skip
PLACE = {"recipient": "qa", "channel": "product", "channel_sequence_id": 7}
CARRIED = {
    name: OLD[name] for name in ("task_id", "parent_task_id", "thread_id", "correlation_id", "context", "receipts")
}


@dataclass
class Recorder:
    """Keeps what was asked, in place of the transport and of `Agent.send`."""

    asked: list = field(default_factory=list)
    sent: list = field(default_factory=list)

    async def call(self, method, target, body=None):
        """An answer that serves them all."""
        self.asked.append((method, target, body and json.loads(body)))
        return {**PLACE, "envelope": OLD, "replays": [{"id": "j"}]}

    async def get(self, path, query=None):
        """A GET."""
        return await self.call("GET", path)

    async def post(self, path, body):
        """A POST."""
        return await self.call("POST", path, body)

    async def send(self, to, contract, payload, **fields):
        """As `Agent.send`."""
        self.sent.append((to, contract, payload, fields))
        return "receipt"


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def letters(recorder):
    return DeadLetters(recorder, recorder.send)


@pytest.mark.parametrize("letter", [("qa", "product", 7), PLACE])
async def test_a_resend_takes_over_what_ties_it_to_its_task(letters, recorder, letter):
    """To the recipient alone, with the old payload and type; times and the reply's number do not come with it. What was
    not fetched yet is."""
    assert await letters.resend(letter) == "receipt"
    assert recorder.sent == [("@qa", "task.assign/1", {"title": "x"}, CARRIED | {"replaces": PLACE})]
    assert recorder.asked == [("GET", "/v1/dead-letters/qa/product/7", None)]


async def test_what_is_said_is_changed(letters, recorder):
    """Null is a payload; a field given as None is left out; what was fetched already is not fetched again."""
    key = "018bcfe5-687b-7000-8000-000000000001"
    await letters.resend(
        {**PLACE, "envelope": OLD}, payload=None, to="product", type="note/1", context=None, idempotency_key=key
    )
    fields = CARRIED | {"replaces": PLACE, "context": None, "idempotency_key": key}
    assert recorder.sent == [("product", "note/1", None, fields)]
    assert recorder.asked == []


async def test_a_job_is_asked_for_under_an_id_of_its_own(letters, recorder):
    """So that the same bytes can be sent again; what is not said is left out."""
    await letters.start_replay(recipient="qa", rate=5)
    await letters.start_replay()
    (_, path, first), (_, _, second) = recorder.asked
    assert path == "/v1/dead-letters/replays"
    assert first.pop("id") != second.pop("id")
    assert (first, second) == ({"recipient": "qa", "rate": 5}, {})


async def test_jobs_are_read_and_cancelled(letters, recorder):
    """By id, which is escaped."""
    assert await letters.replays() == [{"id": "j"}]
    await letters.read_replay("a/b")
    await letters.cancel_replay("j")
    assert [asked[:2] for asked in recorder.asked[1:]] == [
        ("GET", "/v1/dead-letters/replays/a%2Fb"), ("DELETE", "/v1/dead-letters/replays/j"),
    ]  # fmt: skip


def test_without_a_loop_there_is_the_same(letters):
    """Every public method, by the same name."""
    plain = SyncDeadLetters(letters, lambda work: work)
    names = {name for name in dir(letters) if not name.startswith("_")}
    assert names == set(vars(plain))
    assert len(names) == 10
