"""What is asked of the sidecar about the outbox."""

import json
import uuid
from dataclasses import dataclass, field

from multiclaw.client.outbox import Outbox
from multiclaw.client.sync_outbox import SyncOutbox

KEY = "00000000-0000-7000-8000-000000000001"


@dataclass
class Recorder:
    """Keeps what was asked, in place of the transport."""

    asked: list = field(default_factory=list)

    async def call(self, method, target, body=None):
        """An answer that serves them all."""
        self.asked.append((method, target, body and json.loads(body)))
        return {"asked": target}

    async def get(self, path, query=None):
        """A GET."""
        self.asked.append(("GET", path, query))
        return {"asked": path}

    async def post(self, path, body):
        """A POST."""
        return await self.call("POST", path, body)


async def test_each_call_has_its_path() -> None:
    """Pages by their cursor, one by its key, escaped."""
    transport = Recorder()
    outbox = Outbox(transport)
    await outbox.waiting()
    await outbox.dead(limit=7, after="1f")
    await outbox.read("a/b")
    await outbox.resend(KEY)
    await outbox.drop(KEY)
    assert transport.asked == [
        ("GET", "/v1/outbox", {"limit": 100}),
        ("GET", "/v1/outbox/dead", {"limit": 7, "after": "1f"}),
        ("GET", "/v1/outbox/a%2Fb", None),
        ("POST", f"/v1/outbox/{KEY}/resend", {}),
        ("DELETE", f"/v1/outbox/{KEY}", None),
    ]


async def test_a_new_key_is_made_before_the_first_try() -> None:
    """So that a retry cannot make two messages of it; each call has its own."""
    transport = Recorder()
    for _ in range(2):
        await Outbox(transport).resend(KEY, under_new_key=True)
    keys = [body["new_key"] for _, _, body in transport.asked]
    assert len({uuid.UUID(key) for key in keys}) == 2


def test_plain_code_has_the_same_calls() -> None:
    """Each public method has a plain one of its name, which gives its answer."""

    def run(work):
        try:
            work.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError

    outbox = SyncOutbox(Outbox(Recorder()), run)
    names = {name for name in vars(Outbox) if not name.startswith("_")}
    assert set(vars(outbox)) == names
    assert outbox.drop(KEY) == {"asked": f"/v1/outbox/{KEY}"}
