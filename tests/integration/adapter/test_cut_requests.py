"""Clients that vanish at any moment of their request: at each point where its handling awaits something.

Whatever the point, nothing stays behind: no lease, no parked poll, no lock, no snapshot. The same request works when it
is made again, what was accepted is there once, and nothing is handed over a second time as if it were new.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.app import adapter
from shared import dead_letters as wire
from shared import link as paths
from shared.identifiers import uuid7
from shared.replays import REPLAYS_PATH
from tests.integration.adapter.conftest import Link
from tests.support.cutting import MOMENTS, SECONDS_MAX, Ask, Cutter, Moment
from tests.support.deployment import until
from tests.support.link_client import LinkClient
from tests.support.store_hand import holding, looking_at, reading

LEASE_SECONDS = 4 * SECONDS_MAX
LONG = 150_000
LETTERS, REPLAY, RESOLVE = (paths.ROOT + path for path in (wire.PATH, wire.REPLAY_PATH, wire.RESOLVE_PATH))
REPLAYS = paths.ROOT + REPLAYS_PATH


class Team:
    """Clients of an adapter in this process."""

    def __init__(self, link: Link, pm: LinkClient, qa: LinkClient, orchestrator: LinkClient) -> None:
        self.link = link
        self.pm = pm
        self.qa = qa
        self.orchestrator = orchestrator

    async def send(self, characters: int = 5) -> int:
        """A message that waits for qa; its sequence."""
        return await self.sent(self.pm.envelope("@qa", payload={"text": "x" * characters}))

    async def sent(self, envelope: dict[str, Any], answer: list[dict[str, Any]] | None = None) -> int:
        """The sequence of a message that is accepted, now or as `answer` says."""
        (outcome,) = answer or await self.pm.submit(envelope)
        assert outcome["code"] in {200, 201}
        self.link.history.sent("pm", envelope, outcome["code"], outcome["answer"])
        return int(outcome["answer"]["channel_sequence_id"])

    async def taken(
        self, *sequences: int, answer: list[dict[str, Any]] | None = None, attempt_max: int = 2
    ) -> list[str]:
        """The deliveries of these messages and no other, from `answer` or as they are handed over now."""
        messages = answer or await self.qa.poll(wait=SECONDS_MAX)
        self.link.history.received("qa", messages)
        assert [message["envelope"]["channel_sequence_id"] for message in messages] == list(sequences)
        assert all(message["attempt"] <= attempt_max for message in messages)
        return [message["delivery_id"] for message in messages]

    async def done(self, deliveries: list[str]) -> None:
        """They are acknowledged, and nothing else waits."""
        acked = await self.qa.ack(*deliveries)
        assert (acked.status, acked.document) == (200, {"acked": deliveries})
        assert await self.qa.poll() == []

    async def dead(self) -> dict[str, Any]:
        """A message that qa has refused, as an item of a request."""
        sequence = await self.send()
        (delivery,) = await self.taken(sequence)
        assert (await self.qa.nack(delivery, "refuse")).status == 200
        return {"recipient": "qa", "channel": "@qa", "channel_sequence_id": sequence}

    async def open_letters(self) -> list[dict[str, Any]]:
        """Dead letters that are open, as items of a request."""
        answer = await self.orchestrator.call("GET", LETTERS)
        assert answer.status == 200
        names = ("recipient", "channel", "channel_sequence_id")
        return [{name: letter[name] for name in names} for letter in answer.document["dead_letters"]]

    async def decide(self, ask: Ask, path: str, item: dict[str, Any], name: str) -> None:
        """Ask for a decision about a dead letter that is cut, and for the same again; it is made once."""
        answer = await ask(self.orchestrator.call("POST", path, {"items": [item]}))
        again = await self.orchestrator.call("POST", path, {"items": [item]})
        assert (answer.document[name] if answer else 0) + again.document[name] <= 1
        assert await self.open_letters() == []

    def will_come_again(self) -> None:
        """What was sent last is handed over after later ones, perhaps: it was dead."""
        send = self.link.history.acked[-1]
        self.link.history.replayed.add(("qa", *send.identity))


@pytest.fixture
async def team(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Team, Cutter]]:
    """With leases that no test outlives; what is in the store at the end must fit what was seen."""
    cutter = Cutter(monkeypatch)
    async with Link(short_folder, {"lease_seconds": LEASE_SECONDS}) as link, adapter(link.config):
        made = Team(link, *[await link.client(name) for name in ("pm", "qa", "orchestrator")])
        yield made, cutter
        assert link.violations() == []
        assert await made.qa.poll() == []
        with reading(link.config.adapter_store) as connection:
            assert connection.execute("SELECT coalesce(sum(failures), 0) FROM deliveries").fetchone() == (0,)
        with holding(link.config.adapter_store):
            pass  # nobody else holds it
        await until(lambda: _is_free_of_readers(link.config.adapter_store), "no reader holds a snapshot")


def _is_free_of_readers(store: Path) -> bool:
    """Whether the whole log can be brought into the file: a snapshot that somebody holds would keep a part of it."""
    with looking_at(store) as connection:
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool(frames == moved)


async def _send(team: Team, ask: Ask, characters: int = 5) -> None:
    envelope = team.pm.envelope("@qa", payload={"text": "x" * characters})
    sequence = await team.sent(envelope, await ask(team.pm.submit(envelope)))
    assert await team.sent(envelope) == sequence
    await team.done(await team.taken(sequence, attempt_max=1))


async def _long_send(team: Team, ask: Ask) -> None:
    """Its body comes in pieces, which are waited for."""
    await _send(team, ask, LONG)


async def _poll(team: Team, ask: Ask) -> None:
    sequence = await team.send()
    await team.done(await team.taken(sequence, answer=await ask(team.qa.poll())))


async def _long_poll(team: Team, ask: Ask) -> None:
    """Its answer is more than a socket takes at once, so that writing it waits for the client."""
    sequences = [await team.send(LONG) for _ in range(3)]
    await team.done(await team.taken(*sequences, answer=await ask(team.qa.poll())))


async def _parked_poll(team: Team, ask: Ask) -> None:
    """The message comes while the poll waits, or after its client has gone."""
    envelope = team.pm.envelope("@qa")
    answer, outcomes = await asyncio.gather(ask(team.qa.poll(wait=0.2)), team.pm.submit(envelope))
    await team.done(await team.taken(await team.sent(envelope, outcomes), answer=answer))


async def _idle_poll(team: Team, ask: Ask) -> None:
    """Nothing comes while it waits; what comes then is not handed to a client that has gone, not even for a moment."""
    assert not await ask(team.qa.poll(wait=0.3))
    assert await team.qa.poll() == []  # whatever the one that was cut has asked of the store is done by now
    await team.done(await team.taken(await team.send(), attempt_max=1))


async def _ack(team: Team, ask: Ask) -> None:
    (delivery,) = await team.taken(await team.send())
    await ask(team.qa.ack(delivery))
    await team.done([delivery])


async def _acking_poll(team: Team, ask: Ask) -> None:
    """It acknowledges one message and is handed the next in one commit; with that message it comes back whole."""
    delivery, following = await team.taken(await team.send()), await team.send()
    body = {"wait": 0.2, "acks": {"delivery_ids": delivery}}
    answer = await ask(team.qa.call("POST", paths.POLL_PATH, body))
    messages = answer.document["messages"] if answer else None
    assert (await team.qa.ack(*delivery)).status == 200
    await team.done(await team.taken(following, answer=messages))


async def _extend(team: Team, ask: Ask) -> None:
    (delivery,) = await team.taken(await team.send())
    await ask(team.qa.extend(delivery, seconds=LEASE_SECONDS))
    await team.done([delivery])


async def _release(team: Team, ask: Ask) -> None:
    sequence = await team.send()
    (delivery,) = await team.taken(sequence)
    await ask(team.qa.nack(delivery, "release"))
    assert (await team.qa.nack(delivery, "release")).status in {200, 409}
    await team.done(await team.taken(sequence))


async def _refuse(team: Team, ask: Ask) -> None:
    sequence = await team.send()
    (delivery,) = await team.taken(sequence)
    await ask(team.qa.nack(delivery, "refuse"))
    assert (await team.qa.nack(delivery, "refuse")).status in {200, 409}
    assert await team.qa.poll() == []
    (item,) = await team.open_letters()
    assert item["channel_sequence_id"] == sequence
    await team.orchestrator.call("POST", RESOLVE, {"items": [item]})


async def _replay(team: Team, ask: Ask) -> None:
    item = await team.dead()
    team.will_come_again()
    await team.decide(ask, REPLAY, item, "replayed")
    await team.done(await team.taken(item["channel_sequence_id"]))


async def _resolve(team: Team, ask: Ask) -> None:
    await team.decide(ask, RESOLVE, await team.dead(), "resolved")
    assert await team.qa.poll() == []


async def _list(team: Team, ask: Ask) -> None:
    item = await team.dead()
    await ask(team.orchestrator.call("GET", LETTERS))
    assert await team.open_letters() == [item]
    await team.orchestrator.call("POST", RESOLVE, {"items": [item]})


async def _replay_job(team: Team, ask: Ask) -> None:
    item, body = await team.dead(), {"id": str(uuid7()), "rate": 1_000}
    team.will_come_again()
    await ask(team.orchestrator.call("POST", REPLAYS, body))
    assert (await team.orchestrator.call("POST", REPLAYS, body)).status in {200, 201}
    await team.done(await team.taken(item["channel_sequence_id"]))

    async def is_over() -> bool:
        return bool((await team.orchestrator.call("GET", f"{REPLAYS}/{body['id']}")).document["state"] == "done")

    await until(is_over, "the job has ended")


CASES: dict[str, tuple[str, str, Callable[[Team, Ask], Awaitable[None]]]] = {
    "send": ("POST", paths.MESSAGES_PATH, _send),
    "long send": ("POST", paths.MESSAGES_PATH, _long_send),
    "poll": ("POST", paths.POLL_PATH, _poll),
    "long poll": ("POST", paths.POLL_PATH, _long_poll),
    "parked poll": ("POST", paths.POLL_PATH, _parked_poll),
    "idle poll": ("POST", paths.POLL_PATH, _idle_poll),
    "acking poll": ("POST", paths.POLL_PATH, _acking_poll),
    "ack": ("POST", paths.ACK_PATH, _ack),
    "extend": ("POST", paths.EXTEND_PATH, _extend),
    "release": ("POST", paths.NACK_PATH, _release),
    "refuse": ("POST", paths.NACK_PATH, _refuse),
    "replay": ("POST", REPLAY, _replay),
    "resolve": ("POST", RESOLVE, _resolve),
    "list": ("GET", LETTERS, _list),
    "replay job": ("POST", REPLAYS, _replay_job),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("case", CASES)
async def test_nothing_stays_behind(team: tuple[Team, Cutter], case: str, moment: Moment) -> None:
    """Each call, cut at each of its points, and then made again."""
    made, cutter = team
    method, path, ask_and_look = CASES[case]
    rounds = 0
    for ask in cutter.cuts(method, path, moment):
        async with asyncio.timeout(SECONDS_MAX):
            await ask_and_look(made, ask)
        rounds += 1
    assert rounds > 1
