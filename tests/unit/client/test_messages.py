"""What a reply takes over, and what a message says of itself."""

import json
import subprocess
import sys

import pytest

from multiclaw import Message
from multiclaw.client.deliveries import bounded_reason
from tests.support.fake_sidecar import envelope


class Holder:
    """Keeps what was sent."""

    def __init__(self):
        self.sent = None

    async def send(self, to, contract, payload, **fields):
        """As `Agent.send`."""
        self.sent = {"to": to, "type": contract, "payload": payload, **fields}


def message(holder=None, **fields):
    delivery = {"delivery_id": "t1", "attempt": 2, "redelivered": True, "lease_expires_at": "2026-01-01T00:00:00Z"}
    return Message({**delivery, "envelope": envelope(7, **fields)}, holder)


async def test_a_reply_stays_in_its_thread():
    """Thread, correlation and task ids are taken over; it goes to the sender, as an answer to that sequence."""
    holder = Holder()
    await message(holder, thread_id="th", correlation_id="co", task_id="ta").reply("note/1", 1)
    assert holder.sent == {
        "to": "@pm",
        "type": "note/1",
        "payload": 1,
        "thread_id": "th",
        "correlation_id": "co",
        "task_id": "ta",
        "reply_to_sequence_id": 7,
    }


@pytest.mark.parametrize(
    ("came_to", "reply_to", "sequence"),
    [
        ("@qa", None, 7),
        ("product", "product", 7),
        ("product", None, None),
        ("product", "platform", None),
        ("@qa", "product", None),
    ],
)
async def test_a_sequence_is_given_only_where_it_means_this_message(came_to, reply_to, sequence):
    """A number of one channel is never read as a number of another."""
    holder = Holder()
    await message(holder, to=came_to).reply("note/1", 1, to=reply_to)
    assert holder.sent["reply_to_sequence_id"] == sequence


async def test_what_a_reply_says_itself_wins():
    """Fields given to `reply` replace those taken over."""
    holder = Holder()
    await message(holder, task_id="ta").reply("note/1", 1, task_id="other", context={"c": 1})
    assert holder.sent["task_id"] == "other"
    assert holder.sent["context"] == {"c": 1}


def test_the_order_key_is_the_task_else_the_channel():
    """A task and a channel of the same name are different orders."""
    assert message(task_id="x").order_key != message(to="x").order_key
    assert message(task_id="x", to="product").order_key == message(task_id="x").order_key


def test_properties_read_the_envelope():
    """The properties are the envelope's fields."""
    it = message(thread_id="th", to="product")
    assert (it.sender, it.channel, it.type, it.sequence, it.thread_id) == ("pm", "product", "note/1", 7, "th")
    assert (it.attempt, it.redelivered, it.delivery_id, it.task_id, it.receipts) == (2, True, "t1", None, [])


def test_a_reason_is_always_acceptable():
    """Reasons are bounded and hold nothing that the API refuses."""
    reason = bounded_reason("\0\ud800" + "x" * 5_000)
    assert len(reason) == 1_000
    assert "\0" not in reason
    json.dumps(reason).encode()
    reason.encode("utf-8")


def test_importing_the_client_stays_light():
    """`import multiclaw` brings in neither the command line nor anything behind the client."""
    code = "import multiclaw, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()  # noqa: S603 - our own code
    foreign = {"shared", "adapter", "sidecar", "multiclaw.cli", "pydantic", "orjson", "typer", "rich", "uvloop"}
    assert foreign.isdisjoint(loaded)
